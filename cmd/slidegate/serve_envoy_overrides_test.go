package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// Clients can send windows of any length, with descriptors and with CL.THROTTLE. However many they send, a policy that has not been
// used yet still works, even after a restart.
func TestServeManyWindows(t *testing.T) {
	rules := write(t, "rules.yaml", []byte("domain: d\ndescriptors:\n- {key: k, rate_limit: {window: 77s, requests_per_unit: 5}}\n"))
	policies := write(t, "slidegate.yaml", []byte("policies:\n"+
		"  default: {key: \"{address}\", limits: [5/1h]}\n"+
		"  login: {key: \"{address}\", limits: [5/17m, 9/29h sliding-log, 9/31h token-bucket, 9/37h fixed-window]}\n"))
	state := filepath.Join(t.TempDir(), "state")
	s := startServe(t, "--config", policies, "--envoy", rules, "--state", state)
	bring := func(descriptor string) int {
		t.Helper()
		status, text := s.post("/json", `{"domain":"d","descriptors":[`+descriptor+`]}`)
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Fatalf("%s: %d %s", descriptor, status, text)
		}
		return status
	}
	statuses := map[int]int{}
	for multiplier := range 300 {
		statuses[bring(fmt.Sprintf(`{"entries":[{"key":"x"}],"limit":{"requestsPerUnit":5,"unit":"MINUTE","unitMultiplier":%d}}`, multiplier+2))]++
	}
	if statuses[http.StatusOK] < 60 || statuses[http.StatusTooManyRequests] < 200 {
		t.Errorf("statuses of 300 windows: got %v, want at least 60 of 200 and 200 of 429", statuses)
	}
	throttle(t, s.addresses["resp"], 300)
	check := func() {
		t.Helper()
		for _, policy := range []string{"login", "default"} {
			if status, text := s.post("/v1/allow", `{"policy":"`+policy+`","key":"me"}`); status != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200", policy, status, text)
			}
		}
		if status := bring(`{"entries":[{"key":"k"}]}`); status != http.StatusOK {
			t.Errorf("rule of the file: got %d, want 200", status)
		}
	}
	check()
	s.mustEnd(syscall.SIGTERM)
	s = startServe(t, "--config", policies, "--envoy", rules, "--state", state)
	check()
}

// throttle sends CL.THROTTLE with the given number of different periods, and ignores the replies.
func throttle(t *testing.T, address string, periods int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	var all strings.Builder
	for period := range periods {
		fmt.Fprintf(&all, "CL.THROTTLE k 5 5 %d\n", period+1)
	}
	if _, err := conn.Write([]byte(testkit.Commands(all.String() + "ECHO done"))); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() == "done" {
			return
		}
	}
	t.Fatal("no reply")
}

// Without rules /json is not served: its response would always be OK.
func TestServeJSONNeedsRules(t *testing.T) {
	s := startServe(t, "--limit", "5/1h")
	if status, _ := s.post("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]}`); status != http.StatusNotFound {
		t.Errorf("POST /json without --envoy: got %d, want 404", status)
	}
	if status, _ := s.page("http", "/healthcheck"); status != http.StatusOK {
		t.Errorf("/healthcheck: got %d, want 200", status)
	}
}
