package docs

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// runServer runs a program that listens, and returns the problem with it, or "". It must admit as many requests of a client as its
// code says, refuse the next one, and still admit another client. If it uses this project, Retry-After must be true. If the page
// shows a request (sh) and then a response (http), the requests are sent that way, and the refusal must be that response.
func runServer(t *testing.T, p *page, b block) string {
	quota := quotaIn.FindStringSubmatch(b.code)
	if quota == nil {
		return "the test does not find the quota in this program: see quotaIn"
	}
	admitted, err := strconv.Atoi(quota[1])
	testkit.NoError(t, err)
	program, variables, wrong := build(t, b.code)
	if wrong != "" {
		return wrong
	}
	return attempt(t, func() string { return serveOnce(t, p, b, program, variables, admitted) })
}

// serveOnce starts the program of a block once, with servers of its own, and returns the problem with it, or "".
func serveOnce(t *testing.T, p *page, b block, program string, variables []string, quota int) string {
	t.Helper()
	address, wrong := serve(t, program, variables)
	if wrong != "" {
		return wrong
	}
	client := clientOf(address, "127.0.0.1", "client-7")
	command, shown := exchangeOf(p, b)
	if command != "" {
		listen := listens.FindStringSubmatch(b.code)[1]
		client = commandClient(t, strings.ReplaceAll(command, listen, address))
	}
	first, refusal, wrong := useUp(client, quota)
	if wrong == "" && strings.Contains(b.code, `"github.com/slidegate/slidegate`) {
		wrong = checkRetryAfter(first, refusal, quota)
	}
	if wrong == "" && shown != nil {
		wrong = checkShown(shown, refusal)
	}
	if wrong == "" && runtime.GOOS == "linux" { // elsewhere loopback has one address only
		wrong = checkOther(clientOf(address, "127.0.0.2", "client-8"))
	}
	return wrong
}

// quotaIn matches the limit in the code of a server.
var quotaIn = regexp.MustCompile(`\b(?:Limit\w*|Per[A-Z]\w+|NewRate\w+)\("?(\d+)`)

// serve starts a program on a free port, and returns its address, or the problem. If another process takes the port first, the
// program ends.
func serve(t *testing.T, program string, variables []string) (address, wrong string) {
	t.Helper()
	address = testkit.FreeAddress(t)
	cmd := exec.Command(program)
	cmd.Dir, cmd.Env = t.TempDir(), append(environment(t, variables), listenVariable+"="+address)
	s := startSample(t, cmd)
	if !s.accepts(t, address) || s.hasEnded() {
		return "", fmt.Sprintf("the program ends, and prints\n%s", s.output)
	}
	return address, ""
}

// A reply is a response, and the times between which the server decided.
type reply struct {
	*http.Response
	text           string // as curl -i prints it; "" from other clients
	sent, received time.Time
}

// A client sends a request and returns the response.
type client func() (*reply, error)

// clientOf returns a client with an address and an API key of its own.
func clientOf(server, from, key string) client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	if runtime.GOOS != "linux" {
		dialer.LocalAddr = nil
	}
	sender := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: testkit.Patience}
	return func() (*reply, error) {
		request, err := http.NewRequest(http.MethodGet, "http://"+server+"/", nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("X-Api-Key", key)
		r := &reply{sent: time.Now()}
		if r.Response, err = sender.Do(request); err != nil {
			return nil, err
		}
		r.received = time.Now()
		return r, r.Body.Close()
	}
}

// commandClient returns a client that runs a curl command of a page.
func commandClient(t *testing.T, command string) client {
	t.Helper()
	installed(t, "curl")
	home := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(home, ".curlrc"), []byte("silent\nshow-error\n"), 0o600)) // as on a terminal
	return func() (*reply, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Env = append(os.Environ(), "CURL_HOME="+home)
		r := &reply{sent: time.Now()}
		out, err := cmd.CombinedOutput()
		r.text, r.received = string(out), time.Now()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", command, err, out)
		}
		r.Response, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
		return r, err
	}
}

// useUp sends requests until the quota is used up, and one more, which must be refused. It returns the first and the last response.
func useUp(send client, quota int) (first, refusal *reply, wrong string) {
	for n := 1; n <= quota; n++ {
		r, err := send()
		if err != nil {
			return nil, nil, err.Error()
		}
		if r.StatusCode != http.StatusOK {
			return nil, nil, fmt.Sprintf("the server answers request %d of %d with %s, want 200", n, quota, r.Status)
		}
		if n == 1 {
			first = r
		}
	}
	refusal, err := send()
	if err != nil {
		return nil, nil, err.Error()
	}
	if refusal.StatusCode != http.StatusTooManyRequests {
		return nil, nil, fmt.Sprintf("the server answers request %d with %s, want 429 because its quota is %d", quota+1, refusal.Status, quota)
	}
	return first, refusal, ""
}

// checkOther returns the problem if another client does not have a quota of its own.
func checkOther(send client) string {
	r, err := send()
	if err != nil {
		return err.Error()
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Sprintf("the server answers another client with %s, want 200", r.Status)
	}
	return ""
}

var windowIn = regexp.MustCompile(`;q=(\d+);w=(\d+)`)

// checkRetryAfter returns the problem with the Retry-After of a refusal. With a log, the quota has a free unit when the first
// request has left the window. The server decided both requests between their times of sending and receiving.
func checkRetryAfter(first, refusal *reply, quota int) string {
	policy := windowIn.FindStringSubmatch(refusal.Header.Get("RateLimit-Policy"))
	if policy == nil || policy[1] != strconv.Itoa(quota) {
		return fmt.Sprintf("the refusal has the RateLimit-Policy %q, want the quota %d in it", refusal.Header.Get("RateLimit-Policy"), quota)
	}
	window, _ := strconv.Atoi(policy[2])
	least := math.Ceil(float64(window) - refusal.received.Sub(first.sent).Seconds())
	most := math.Ceil(float64(window) - refusal.sent.Sub(first.received).Seconds())
	got, err := strconv.Atoi(refusal.Header.Get("Retry-After"))
	if err != nil || float64(got) < least || float64(got) > most {
		return fmt.Sprintf("the refusal has the Retry-After %q, want %v to %v", refusal.Header.Get("Retry-After"), least, most)
	}
	return ""
}

// exchangeOf returns the command of a page that sends a request to a server, and the response that the page shows: the next sh block
// and the http block after it, if they come before the next Go block.
func exchangeOf(p *page, server block) (command string, response *block) {
	for _, b := range p.blocks {
		switch {
		case b.line <= server.line:
		case b.language == "go":
			return command, nil
		case b.language == "sh" && command == "":
			command = b.code
		case b.language == "http" && command != "":
			return command, &b
		}
	}
	return command, nil
}

var (
	ownFields = regexp.MustCompile(`(?m)^(Date|Content-Length): .*\n`)
	shownWait = regexp.MustCompile(`(?m)^Retry-After: (\d+)$`)
)

// checkShown returns the problem if a response is not the one that the page shows. Pages leave out the fields that every response
// has, and the time to wait may differ: checkRetryAfter checks it.
func checkShown(shown *block, got *reply) string {
	want, is := sameWait(shown.code), sameWait(ownFields.ReplaceAllString(strings.ReplaceAll(got.text, "\r\n", "\n"), ""))
	if !matches(want, is) {
		return fmt.Sprintf("the server answers\n%s\nwant, as on line %d,\n%s", is, shown.line, want)
	}
	return ""
}

// sameWait replaces the seconds of Retry-After by 60, wherever a response has them apart from the window.
func sameWait(response string) string {
	wait := shownWait.FindStringSubmatch(response)
	if wait == nil {
		return response
	}
	return regexp.MustCompile(`(;t=|Retry-After: |Try again in |"retry_after":)`+wait[1]+`\b`).ReplaceAllString(response, "${1}60")
}
