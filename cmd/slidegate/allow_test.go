package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// commandLines are command lines with their expected results, called in order.
type commandLines []struct {
	args   []string
	status int
	want   string // part of the output, or of the error message
}

func (steps commandLines) play(t *testing.T, more ...string) {
	t.Helper()
	for i, step := range steps {
		r := call(t, append(step.args, more...)...)
		got := r.out
		if step.status == exitFailure {
			got = r.err
		}
		if r.status != step.status || !strings.Contains(got, step.want) {
			t.Errorf("%d: %q: got status %d and\n%s%s\nwant status %d and %q", i, step.args, r.status, r.out, r.err, step.status, step.want)
		}
		if step.status != exitFailure && r.err != "" {
			t.Errorf("%d: %q: got %q on standard error, want nothing", i, step.args, r.err)
		}
	}
}

func TestDecisionsOfService(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	policies := write(t, "policies.yaml", []byte("policies:\n  default: {limits: [3/1h sliding-log]}\n  web: {limits: [1/1h sliding-log]}\n"))
	s := startServe(t, "--config", policies)
	commandLines{
		{[]string{"peek", "me"}, exitOK, "allowed: 3 of 3 left"},
		{[]string{"allow", "me"}, exitOK, "allowed: 2 of 3 left, resets in 1h0m0s"},
		{[]string{"allow", "me", "--cost", "2"}, exitOK, "allowed: 0 of 3 left"},
		{[]string{"allow", "me"}, exitRefused, "refused by 3/1h sliding-log: 0 of 3 left, retry in 59m"},
		{[]string{"peek", "me"}, exitRefused, "refused"},
		{[]string{"allow", "me", "--cost", "4"}, exitRefused, "it can never be admitted"},
		{[]string{"allow", "me", "--cost=-1"}, exitFailure, "cost: must be"},
		{[]string{"allow", "you"}, exitOK, "2 of 3"},
		{[]string{"charge", "he"}, exitOK, "2 of 3"},
		{[]string{"charge", "he", "--cost", "7"}, exitOK, "0 of 3"},
		{[]string{"allow", "he"}, exitRefused, "refused"},
		{[]string{"charge", "he", "--cost", "0"}, exitFailure, "cost: must be 1"},
		{[]string{"charge", "he", "--cost=-1"}, exitFailure, "cost: must be"},
		{[]string{"allow", "me", "--policy", "web"}, exitOK, "0 of 1"},
		{[]string{"allow", "me", "--policy", "wbe"}, exitFailure, `"wbe" is not a policy; did you mean "web"? (want one of default, web)`},
		{[]string{"reset", "me"}, exitFailure, "is not the admin listener"},
	}.play(t, "--server", s.url("http"))
	r := call(t, "allow", "me", "--format", "json", "--server", s.url("http")+"/")
	var reply decision
	if err := json.Unmarshal([]byte(r.out), &reply); err != nil || r.status != exitRefused || reply.Allowed || reply.Policy != "default" || reply.Quota != 3 ||
		reply.RetryAfterMicros == nil || *reply.RetryAfterMicros > time.Hour.Microseconds() {
		t.Errorf("got status %d, %s, %v, want status %d and a refusal by the policy default with quota 3 for at most an hour", r.status, r.out, err, exitRefused)
	}
	commandLines{
		{[]string{"reset", "me", "--policy", "wbe"}, exitFailure, `did you mean "web"?`},
		{[]string{"reset", "me"}, exitOK, "reset"},
	}.play(t, "--server", s.url("admin"))
	commandLines{{[]string{"allow", "me", "--cost", "3"}, exitOK, "0 of 3"}}.play(t, "--server", s.url("http"))
}

func TestDecisionsNeedToken(t *testing.T) {
	const token = "0123456789abcdef"
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--tokens-file", write(t, "tokens", []byte("# ours\n"+token+"\n")))
	commandLines{
		{[]string{"allow", "me"}, exitFailure, "a token is required: send Authorization: Bearer TOKEN (--token TOKEN, or SLIDEGATE_TOKEN)"},
		{[]string{"allow", "me", "--token", "wrong"}, exitFailure, "the token is not valid here; a token is required (--token TOKEN, or SLIDEGATE_TOKEN)"},
		{[]string{"allow", "me", "--token", token}, exitOK, "99 of 100"},
	}.play(t, "--server", s.url("http"))
	t.Setenv("SLIDEGATE_TOKEN", token)
	commandLines{{[]string{"allow", "me"}, exitOK, "98 of 100"}}.play(t, "--server", s.url("http"))
	commandLines{{[]string{"reset", "me"}, exitOK, "reset"}, {[]string{"explain", "me"}, exitOK, "decision   allowed"}}.play(t, "--server", s.url("admin"))
}

func TestDecisionErrors(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer other.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // as slidegate proxy refuses a client
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"type":"about:blank","title":"Too many requests","status":429,"detail":"The client is blocked."}`))
	}))
	defer refusing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	commandLines{
		{[]string{"allow"}, exitFailure, "<key>"},
		{[]string{"block", "J\xf6rg"}, exitFailure, `argument 2 is not UTF-8; write a key with other bytes in quotes, as in '"J\xf6rg"'`},
		{[]string{"allow", "me", "--server", gone.URL}, exitFailure, "is the service running? slidegate serve starts one"},
		{[]string{"explain", "me", "--server", gone.URL}, exitFailure, "is the service running? slidegate serve starts one"},
		{[]string{"reset", "me", "--server", gone.URL}, exitFailure, "is the service running? slidegate serve starts one"},
		{[]string{"allow", "me", "--server", other.URL}, exitFailure, "the response is not from a Slidegate service"},
		{[]string{"peek", "me", "--server", other.URL}, exitFailure, "use its admin listener: --server http://127.0.0.1:8082"},
		{[]string{"peek", "me", "--server", refusing.URL}, exitFailure, "the response is not from a Slidegate service; if this is a slidegate proxy, use its admin listener"},
		{[]string{"allow", "me", "--server", refusing.URL}, exitFailure, "the response is not from a Slidegate service"},
		{[]string{"explain", "me", "--server", other.URL}, exitFailure, "the response is not from a Slidegate service"},
		{[]string{"allow", "me", "--server", "localhost:8080"}, exitFailure, "it has no scheme; write http://localhost:8080"},
		{[]string{"allow", "me", "--format", "xml"}, exitFailure, "--format"},
	}.play(t)
}

// A key in quotes is sent as requests have it, and one that JSON would change stays in quotes.
func TestOperatorKeys(t *testing.T) {
	for key, want := range map[string]string{`alice`: `alice`, `"a\tb"`: "a\tb", `"J\xf6rg"`: `"J\xf6rg"`} {
		if got := operatorKey(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}
