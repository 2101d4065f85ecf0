// Package faults_test breaks the stores of the real program in every way that stores break, while clients send requests, and
// measures what the clients get. TestPromises checks what is promised of a few faults; make long T=faults runs them all, for two builds of
// the program if it is given two, and prints tables.
package faults_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

var (
	all        = flag.Bool("faults", false, "break everything, and print tables; some minutes")
	oldProgram = flag.String("old", "", "another build of the program, to compare with")
	newProgram = flag.String("new", "", "the program; built from the source if empty, and \"none\" to measure only the other one")
	modes      = flag.String("modes", "", "failure modes to measure, separated by commas; empty: the program's default")
	tables     = flag.String("tables", "", "a file to append the tables to")
	hold       = flag.Duration("hold", 4*time.Second, "how long each fault lasts in the tables")
)

// built is the program that was built from the source.
var built string

func TestMain(m *testing.M) {
	flag.Parse()
	if *newProgram != "" {
		built = *newProgram
		os.Exit(m.Run())
	}
	testkit.MainWithProgram(m, filepath.Join("..", "..", ".."), &built)
}

// program is a build of the program, and how it is run.
type program struct {
	name, path string
	mode       string        // failure mode; empty: the program's default
	timeout    time.Duration // of the store; 0: the program's default
}

func (p program) String() string {
	if p.mode == "" {
		return p.name
	}
	return p.name + " " + p.mode
}

// programs returns what is to be measured.
func programs() (list []program) {
	for _, mode := range strings.Split(*modes, ",") {
		if *oldProgram != "" {
			list = append(list, program{name: "old", path: *oldProgram, mode: mode})
		}
		if *newProgram != "none" {
			list = append(list, program{name: "new", path: built, mode: mode})
		}
	}
	return list
}

// service is a running service.
type service struct {
	*testkit.Process
	addresses map[string]string // by listener
	client    *http.Client
}

// line is a line of the service's log.
type line struct {
	Time                          time.Time
	Level, Msg, Listener, Address string
	Error                         string
}

// lines returns the log.
func (s *service) lines() (list []line) {
	for text := range strings.Lines(s.Output.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil {
			list = append(list, l)
		}
	}
	return list
}

// serve starts a service with a file of policies, and waits until it listens or has ended.
func serve(t *testing.T, p program, file string, args ...string) *service {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slidegate.yaml")
	testkit.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	s := &service{
		addresses: map[string]string{}, client: &http.Client{Transport: transport, Timeout: testkit.Patience},
		Process: testkit.Run(t, exec.Command(p.path, append([]string{
			"serve", "--config", path, "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off",
			"--log-format", "json",
		}, args...)...)),
	}
	testkit.Eventually(t, "the service listens or ends", func() bool {
		for _, l := range s.lines() {
			if l.Msg == "listening" {
				s.addresses[l.Listener] = l.Address
			}
		}
		return len(s.addresses) == 2 || s.Over()
	})
	return s
}

// policies returns a file of policies: "default" has a small quota, and "many" a large one.
func policies(store string, p program) string {
	file := fmt.Sprintf("store: %q\n", store)
	if p.mode != "" {
		file += "failure: " + p.mode + "\n"
	}
	if p.timeout != 0 {
		file += fmt.Sprintf("store_timeout: %s\n", p.timeout)
	}
	return file + `policies:
  default: {key: "{key}", limits: ["5/1h"]}
  counted: {key: "{key}", limits: ["5/1h count-refused"]}
  many: {key: "{key}", limits: ["3000/1h"]}
`
}

// quota is the quota of the policy "default".
const quota = 5

// decision is what the service decides about a request.
type decision struct {
	Remaining  int64
	RetryAfter int64 `json:"retry_after_us"`
	Flags      []string
	status     int
	began      time.Time
	took       time.Duration
	err        error
}

// fallback reports whether a failure mode decided.
func (d decision) fallback() bool {
	return d.status == http.StatusServiceUnavailable || slices.ContainsFunc(d.Flags, func(flag string) bool { return strings.HasPrefix(flag, "fallback") })
}

// admitted reports whether the request was admitted.
func (d decision) admitted() bool { return d.status == http.StatusOK }

// byStore reports whether the store decided.
func (d decision) byStore() bool { return d.err == nil && !d.fallback() }

// ask sends a request for a unit of a key.
func (s *service) ask(policy, key string) decision { return s.post("/v1/allow", policy, key) }

func (s *service) post(path, policy, key string) (d decision) {
	d.began = time.Now()
	defer func() { d.took = time.Since(d.began) }()
	body, _ := json.Marshal(map[string]string{"policy": policy, "key": key})
	response, err := s.client.Post("http://"+s.addresses["http"]+path, "application/json", bytes.NewReader(body))
	if err != nil {
		d.err = err
		return d
	}
	defer response.Body.Close()
	d.status = response.StatusCode
	text, err := io.ReadAll(response.Body)
	if err == nil && d.status != http.StatusServiceUnavailable {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || d.status != http.StatusOK && d.status != http.StatusTooManyRequests && d.status != http.StatusServiceUnavailable {
		d.err = fmt.Errorf("status %d: %s: %w", d.status, text, err)
	}
	return d
}

// get returns a page of the listener for Prometheus.
func (s *service) get(path string) (status int, body string) {
	response, err := s.client.Get("http://" + s.addresses["metrics"] + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// storeUp returns the value of slidegate_store_up.
func (s *service) storeUp() string {
	_, text := s.get("/metrics")
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "slidegate_store_up{") {
			return l[strings.LastIndexByte(l, ' ')+1 : len(l)-1]
		}
	}
	return "?"
}

// ready returns the status of /readyz, and "degraded" if it says so.
func (s *service) ready() string {
	status, body := s.get("/readyz")
	if strings.Contains(body, "degraded") {
		return fmt.Sprint(status, " degraded")
	}
	return fmt.Sprint(status)
}

// useUp uses up a key of a policy with the small quota, by decisions of the store.
func (s *service) useUp(t *testing.T, policy, key string) {
	t.Helper()
	testkit.Eventually(t, "the store refuses a key that is used up", func() bool {
		d := s.ask(policy, key)
		return d.byStore() && d.status == http.StatusTooManyRequests
	})
}
