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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
)

func TestTop(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--limit", "1/1h sliding-log")
	at := []string{"--server", s.url("admin")}
	commandLines{
		{[]string{"top"}, exitOK, "no key has been refused in the last hour\n"},
		{[]string{"top", "--since", "1m"}, exitOK, "in the last minute\n\n1 instance, "},
		{[]string{"top", "--format", "json"}, exitOK, `"keys":[],"nearest":[]`},
	}.play(t, at...)
	for key, n := range map[string]int{"twice": 3, "never": 1, "once\t\x1b[2J": 2} { // requests per key, of which one is admitted
		for range n {
			s.allow(key)
		}
	}
	r := call(t, append([]string{"top"}, at...)...)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 8 || !strings.HasPrefix(lines[7], "1 instance, ") || !strings.HasSuffix(lines[7], ": the store is in memory, which no other instance shares") || !strings.HasPrefix(strings.TrimSpace(lines[0]), "refused") {
		t.Fatalf("got status %d and\n%s%s\nwant a heading, two keys, one that is near, and which instances", r.status, r.out, r.err)
	}
	if near := lines[5]; !regexp.MustCompile(`^ *100% +1 .* default "never"$`).MatchString(near) {
		t.Errorf("got %q, want the key that has used all", near)
	}
	for i, want := range []string{`^ *2 +1 .* 1/1h sliding-log +default "twice"$`, `^ *1 +1 .*"once\\t\\x1b\[2J"$`} {
		if !regexp.MustCompile(want).MatchString(lines[1+i]) {
			t.Errorf("line %d: got %q, want a match of %s", 1+i, lines[1+i], want)
		}
	}
	r = call(t, append([]string{"top", "-n", "1", "--format", "json"}, at...)...)
	var list topList
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list.Keys) != 1 || list.Keys[0].Key != "twice" || list.Keys[0].Refused != 2 {
		t.Errorf("got status %d, %s, %v, want one key, twice, refused 2 times", r.status, r.out, err)
	}
	commandLines{
		{[]string{"top", "-n", "0"}, exitFailure, "slidegate: -n: must be 1 to 50, not 0"},
		{[]string{"top", "-n", "51"}, exitFailure, "slidegate: -n: must be 1 to 50, not 51"},
		{[]string{"top", "--watch=-1s"}, exitFailure, "--watch"},
		{[]string{"top", "--watch=0s"}, exitFailure, "--watch"},
		{[]string{"top", "--since", "2m"}, exitFailure, "--since: must be 1m, 5m or 1h"},
	}.play(t, at...)
	commandLines{{[]string{"top"}, exitFailure, "is not the admin listener"}}.play(t, "--server", s.url("http"))
	commandLines{{[]string{"top"}, exitFailure, "it has no scheme; write http://127.0.0.1:17012"}}.play(t, "--server", "127.0.0.1:17012")
}

// top --watch runs until its context ends, which is not a failure.
func TestTopWatch(t *testing.T) {
	s := startServe(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watchedOutput{enough: cancel}
	var errs bytes.Buffer
	status := run(ctx, &console{in: strings.NewReader(""), out: out, err: &errs}, []string{"top", "--watch", "1ms", "--server", s.url("admin")})
	if status != exitOK || errs.String() != "" {
		t.Errorf("got status %d, %s, want %d and no errors", status, errs.String(), exitOK)
	}
	if got := strings.Count(out.text.String(), "no key has been refused in the last hour\n"); got != 3 {
		t.Errorf("got %d lists, want 3:\n%s", got, out.text.String())
	}
}

// Keys that were admitted because of shadow mode are marked, and limits are listed only where they refused.
func TestTopMarksShadow(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	policies := write(t, "policies.yaml", []byte("policies: {watched: {limits: [1/1h], shadow: true}, api: {limits: [1/1h], block: ['key:bad']}}\ndefault_policy: api\n"))
	s := startServe(t, "--config", policies, "--log-refusals", "keys")
	for _, body := range []string{`{"policy":"watched","key":"ann"}`, `{"policy":"watched","key":"ann"}`, `{"key":"bad"}`, `{"key":"bob"}`, `{"key":"bob"}`} {
		s.post("/v1/allow", body)
	}
	admin := []string{"top", "--server", s.url("admin")}
	top := mustCall(t, admin...)
	for _, want := range []string{` 1/1h +watched \(shadow\) +"ann"`, `\d\d:\d\d:\d\d +block list +api +"bad"`, ` 1/1h +api +"bob"`} {
		if !regexp.MustCompile(want).MatchString(top) {
			t.Errorf("got\n%s\nwant %s", top, want)
		}
	}
	if got := mustCall(t, append(admin, "--format", "json")...); strings.Count(got, `"shadow":true`) != 1 || strings.Count(got, `"limit":""`) != 1 {
		t.Errorf("got %s, want one key in shadow mode, and one without limits", got)
	}
	if !s.await("policy=watched key=ann shadow=true limits=1/1h", "policy=api key=bad left_out=", "policy=api key=bob limits=1/1h") {
		t.Errorf("the log: got %s", s.text())
	}
}

// watchedOutput is an output that calls enough after three lists.
type watchedOutput struct {
	mu     sync.Mutex
	text   bytes.Buffer
	enough func()
}

func (s *watchedOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(p)
	if strings.Count(s.text.String(), "no key") == 3 {
		s.enough()
	}
	return n, err
}

// The end of the context during a request is not a failure either.
func TestTopWatchEndsDuringRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer slow.Close()
	if r := callWith(ctx, strings.NewReader(""), "top", "--watch", "1ms", "--server", slow.URL); r.status != exitOK || r.err != "" {
		t.Errorf("got status %d, %s, want %d and no errors", r.status, r.err, exitOK)
	}
}

// What several services that share no store have seen is added up by key, and asking one of them twice changes nothing.
func TestTopOfSeveralServices(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	a, b := startServe(t, "--limit", "10/1h"), startServe(t, "--limit", "10/1h")
	for range 12 {
		a.allow("ann")
	}
	for range 13 {
		b.allow("ann")
	}
	for range 9 {
		b.allow("bob")
	}
	out := mustCall(t, "top", "--server", a.url("admin"), "--server", b.url("admin"), "--server", a.url("admin"), "--since", "5m")
	for _, want := range []string{`(?m)^ +5 +20 .* default "ann"$`, `(?m)^ +90% +9 +10/1h +default +"bob"$`, `(?m)^2 instances: the store is in memory`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("got\n%s\nwant %s", out, want)
		}
	}
	one := call(t, "top", "--server", "http://127.0.0.1:1", "--server", a.url("admin"))
	if one.status != exitFailure || !strings.Contains(one.out, `"ann"`) || !strings.HasPrefix(one.err, "slidegate: --server: http://127.0.0.1:1: ") {
		t.Errorf("got %d, %s\n%s; want the keys of one, and an error about the one that is gone", one.status, one.out, one.err)
	}
	if r := call(t, "top", "--server", "http://127.0.0.1:1", "--server", "http://127.0.0.1:2"); r.status != exitFailure || r.out != "" || strings.Count(r.err, "is the service running?") != 2 {
		t.Errorf("got %d, %s\n%s; want errors about both", r.status, r.out, r.err)
	}
}

// A watch of several services goes on while one of them does not answer, and says which.
func TestTopWatchWithoutOne(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watchedOutput{enough: cancel}
	var errs bytes.Buffer
	status := run(ctx, &console{in: strings.NewReader(""), out: out, err: &errs}, []string{"top", "--watch", "1ms", "--server", s.url("admin"), "--server", "http://127.0.0.1:1"})
	if got := strings.Count(out.text.String(), "not shown: --server: http://127.0.0.1:1: "); status != exitOK || errs.String() != "" || got < 2 {
		t.Errorf("got status %d, %s and %d notes; want %d, no errors, and a note with each list:\n%s", status, errs.String(), got, exitOK, out.text.String())
	}
}

// Why an instance shows only itself is said of that instance, if others do not.
func TestTopScope(t *testing.T) {
	here, there, gone := seen.Instance{Name: "here", Alive: true}, seen.Instance{Name: "there", Alive: true}, seen.Instance{Name: "gone"}
	memory := alone{"here", "its store is in memory"}
	for want, list := range map[string]topList{
		"2 instances, and 1 gone; here shows only itself: its store is in memory": {Instances: []seen.Instance{here, there, gone}, Why: memory.why, alone: []alone{memory}, asked: 2},
		"1 instance, here: its store is in memory":                                {Instances: []seen.Instance{here}, Why: memory.why, alone: []alone{memory}, asked: 1},
		"2 instances": {Instances: []seen.Instance{here, there}, asked: 1},
	} {
		if got := list.scope(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
