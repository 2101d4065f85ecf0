package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func TestTop(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--limit", "1/1h sliding-log")
	at := []string{"--server", s.url("admin")}
	asks{
		{[]string{"top"}, exitOK, "nobody was refused yet\n"},
		{[]string{"top", "--format", "json"}, exitOK, `{"keys":[]}`},
	}.play(t, at...)
	for key, n := range map[string]int{"twice": 3, "never": 1, "once\t\x1b[2J": 2} { // as often as they ask, of which one is admitted
		for range n {
			s.allow(key)
		}
	}
	r := call(t, append([]string{"top"}, at...)...)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "refused") {
		t.Fatalf("status %d\n%s%s\nwant a heading and two keys", r.status, r.out, r.err)
	}
	for i, want := range []string{`^ *2 .* default "twice"$`, `^ *1 .*"once\\t\\x1b\[2J"$`} {
		if !regexp.MustCompile(want).MatchString(lines[1+i]) {
			t.Errorf("line %d is %q, want it to match %s", 1+i, lines[1+i], want)
		}
	}
	r = call(t, append([]string{"top", "-n", "1", "--format", "json"}, at...)...)
	var list struct{ Keys []refusedKey }
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list.Keys) != 1 || list.Keys[0].Key != "twice" || list.Keys[0].Refused != 2 {
		t.Errorf("status %d: %s, %v, want one key, twice, refused 2 times", r.status, r.out, err)
	}
	asks{
		{[]string{"top", "-n", "0"}, exitFailure, "n: must be 1 to"},
		{[]string{"top", "--watch=-1s"}, exitFailure, "--watch"},
	}.play(t, at...)
	asks{{[]string{"top"}, exitFailure, "is not the admin door"}}.play(t, "--server", s.url("http"))
}

// TestTopWatch: it goes on until it is told to end, which is no failure.
func TestTopWatch(t *testing.T) {
	s := startServe(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &shown{enough: cancel}
	var errs bytes.Buffer
	status := run(ctx, &console{in: strings.NewReader(""), out: out, err: &errs}, []string{"top", "--watch", "1ms", "--server", s.url("admin")})
	if status != exitOK || errs.String() != "" {
		t.Errorf("status %d: %s", status, errs.String())
	}
	if got := strings.Count(out.text.String(), "nobody was refused yet\n"); got != 3 {
		t.Errorf("shown %d times, not 3:\n%s", got, out.text.String())
	}
}

// shown is a screen that has seen enough after three lists.
type shown struct {
	mu     sync.Mutex
	text   bytes.Buffer
	enough func()
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(p)
	if strings.Count(s.text.String(), "nobody") == 3 {
		s.enough()
	}
	return n, err
}

// TestTopWatchEndsInTheMiddle: an end that comes while the service is asked is no failure either.
func TestTopWatchEndsInTheMiddle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer slow.Close()
	if r := callWith(ctx, strings.NewReader(""), "top", "--watch", "1ms", "--server", slow.URL); r.status != exitOK || r.err != "" {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}
