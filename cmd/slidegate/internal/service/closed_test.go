package service_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// unreachable configures a store that cannot be reached, and failure mode closed.
const unreachable = `
store: redis://127.0.0.1:1
failure: closed
policies:
  default: {limits: [1000/1h]}
  watch: {limits: [1000/1h], shadow: true}
  several: {limits: [1000/1h, 100/1m]}
`

// TestClosedIsNotAQuota: refusals because the store did not answer say so, on every listener and for every operation, and do not
// claim that a quota is used up.
func TestClosedIsNotAQuota(t *testing.T) {
	s := start(t, unreachable, nil)
	for _, path := range []string{"/v1/allow", "/v1/peek", "/v1/reserve", "/v1/refund"} {
		for _, body := range []string{`{"key":"me"}`, `{"policy":"several","key":"me","cost":3}`} {
			got := s.send(t, "http", "POST", path, body)
			if got.status != 503 || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("RateLimit") != "" {
				t.Errorf("%s %s: got %d %v %s, want 503 as application/problem+json without RateLimit", path, body, got.status, got.header, got.body)
			}
			if path != "/v1/refund" && (got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "temporary-reduced-capacity")) { // the failure mode does not decide refunds
				t.Errorf("%s %s: got %v %s, want Retry-After", path, body, got.header, got.body)
			}
		}
	}
	if got := s.send(t, "http", "POST", "/v1/allow", `{"key":"me","cost":2,"up_to":true}`); got.status != 503 {
		t.Errorf("up to: got %d %s, want 503", got.status, got.body)
	}
	batch := s.send(t, "http", "POST", "/v1/allow", `{"requests":[{"key":"a"},{"policy":"watch","key":"a"},{"policy":"nosuch","key":"a"},{"policy":"several","key":"b"}]}`)
	for _, want := range []string{`{"results":[{"status":503,"error":`, `{"status":200,"allowed":true,"policy":"watch"`, `{"status":404,`, `{"status":503,"error":`} {
		if batch.status != 200 || !strings.Contains(batch.body, want) {
			t.Errorf("a batch: got %d %s, want %s", batch.status, batch.body, want)
		}
	}
	if strings.Count(batch.body, `"status":503`) != 2 {
		t.Errorf("a batch: got %s, want two times status 503", batch.body)
	}
	if got := s.allow(t, "watch", "me"); got != 200 {
		t.Errorf("a policy in shadow mode: got %d, want 200", got)
	}
	for _, command := range []string{
		"SG.ALLOW default me", "SG.ALLOW several me 3", "SG.PEEK default me",
		"CL.THROTTLE me 15 30 60", "SG.ALLOW default a\nSG.ALLOW several b", // a pipeline is a batch
	} {
		for _, line := range pipeline(t, s, command) {
			if !strings.HasPrefix(line, "-STORE ") && !strings.HasPrefix(line, "-Cell error: Store error: ") {
				t.Errorf("%s: got %q, want an error of the store", command, line)
			}
		}
	}
}

// pipeline sends commands to the RESP listener, and returns the first line of each reply.
func pipeline(t *testing.T, s *started, commands string) (lines []string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address("resp"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, testkit.Commands(commands)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for range strings.Split(commands, "\n") {
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %q, %v", commands, line, err)
		}
		lines = append(lines, line)
	}
	return lines
}
