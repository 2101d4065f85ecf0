package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"

	"github.com/slidegate/slidegate"
	policy "github.com/slidegate/slidegate/config" // config is what the command line asks for
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/server/forward"
	"github.com/slidegate/slidegate/server/gate"
	"github.com/slidegate/slidegate/server/jsonapi"
)

// serviceServerEnv makes this program a server of the service scenario instead: its value is the kind.
const serviceServerEnv = "SLIDEGATE_BENCH_SERVICE"

// The server is this program, or its tests, before anything else of them runs.
func init() {
	if kind := os.Getenv(serviceServerEnv); kind != "" {
		os.Exit(serveService(kind, os.Stdin, os.Stdout))
	}
}

// startServiceServer runs this program as a server of the given kind, on one processor.
func startServiceServer(kind string) (*wireServer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &wireServer{process: exec.Command(program)}
	s.process.Env = append(os.Environ(), serviceServerEnv+"="+kind, "GOMAXPROCS=1")
	s.process.Stderr = os.Stderr
	if s.in, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	s.out = bufio.NewScanner(out)
	if s.url, err = s.read(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// serveService is the server. It prints where it listens, and then for every line that it reads how long the processor has
// worked for it. It returns the exit status.
func serveService(kind string, in io.Reader, out io.Writer) int {
	handler, err := serviceHandler(kind)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 2
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 1
	}
	go http.Serve(listener, handler) //nolint:errcheck // it ends with the process
	fmt.Fprintf(out, "http://%s/\n", listener.Addr())
	for lines := bufio.NewScanner(in); lines.Scan(); {
		worked, _ := cpuTime()
		fmt.Fprintln(out, int64(worked))
	}
	return 0
}

// constantDecision is as long as what the service answers to one ask.
var constantDecision = []byte(`{"allowed":true,"policy":"api","limit":"8000000/1h","quota":8000000,"remaining":7654321,"granted":1,` +
	`"retry_after_us":0,"reset_after_us":7199000000,"at_us":1800000000000000,"by":"limits","flags":[],"shadow":false,"refused":false}` + "\n")

var constantType = []string{"application/json"}

// serviceHandler makes the handler of a kind of server.
func serviceHandler(kind string) (http.Handler, error) {
	switch kind {
	case "constant":
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = constantType
			_, _ = w.Write(constantDecision)
		}), nil
	case "constant-reading":
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var room [1024]byte
			for {
				if _, err := r.Body.Read(room[:]); err != nil {
					break
				}
			}
			w.Header()["Content-Type"] = constantType
			_, _ = w.Write(constantDecision)
		}), nil
	case "service":
		return newServiceHandler()
	}
	return nil, fmt.Errorf("%s: there is no server %q", serviceServerEnv, kind)
}

// newServiceHandler makes the service, with one policy over memory that is never used up.
func newServiceHandler() (http.Handler, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	key, err := policy.ParseTemplate("{address}")
	if err != nil {
		return nil, err
	}
	file := &policy.File{Policies: []policy.Policy{{
		Name: "api", Key: key, Limits: []slidegate.Limit{{Quota: ampleQuota, Window: quotaWindow}},
	}}}
	g, err := gate.New(file, gate.Stores{Open: store}, gate.Options{})
	if err != nil {
		return nil, err
	}
	api, err := jsonapi.New(g, jsonapi.Options{})
	if err != nil {
		return nil, err
	}
	check, err := forward.New(g, forward.Options{})
	if err != nil {
		return nil, err
	}
	allow := api.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == forward.Path {
			check.ServeHTTP(w, r)
		} else {
			allow.ServeHTTP(w, r)
		}
	}), nil
}
