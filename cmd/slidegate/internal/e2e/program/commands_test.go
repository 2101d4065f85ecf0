package program_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// The program's exit statuses.
const (
	exitOK      = 0
	exitRefused = 1
	exitFailure = 2
)

// commandRuns is a sequence of command lines and their expected results.
type commandRuns []struct {
	args   []string
	status int
	want   string // part of the output or of the error
}

func (steps commandRuns) play(t *testing.T, more ...string) {
	t.Helper()
	for i, step := range steps {
		status, out, errs := call(t, append(step.args, more...)...)
		output := out
		if step.status == exitFailure {
			output = errs
		}
		if status != step.status || !strings.Contains(output, step.want) {
			t.Errorf("%d: %q: got status %d, want %d; got\n%s%s\nwant %q", i, step.args, status, step.status, out, errs, step.want)
		}
		if step.status != exitFailure && errs != "" {
			t.Errorf("%d: %q: unexpected output on stderr: %s", i, step.args, errs)
		}
	}
}

// TestCommandsUseTheStore checks that commands without --server use the store itself, and see what a service has counted there.
func TestCommandsUseTheStore(t *testing.T) {
	node := redistest.Server(t, "maxclients 100") // not shared with other tests
	at := "redis://" + node.Addr()
	limit := []string{"--limit", "3/1h sliding-log"}
	listeners := serve(t, append(limit, "--store", at)...)
	got, err := http.Post("http://"+listeners["http"]+"/v1/allow", "application/json", strings.NewReader(`{"key":"me"}`))
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != http.StatusOK {
		t.Fatalf("the service: got %s, want status 200", got.Status)
	}
	commandRuns{
		{[]string{"peek", "me"}, exitOK, "allowed: 2 of 3 left"},
		{[]string{"allow", "me", "--cost", "2"}, exitOK, "allowed: 0 of 3 left"},
		{[]string{"allow", "me"}, exitRefused, "refused by 3/1h sliding-log"},
		{[]string{"allow", "me", "--format", "json"}, exitRefused, `"allowed":false`},
		{[]string{"reset", "me"}, exitOK, "reset"},
		{[]string{"peek", "me"}, exitOK, "allowed: 3 of 3 left"},
		{[]string{"peek", "me", "--policy", "web"}, exitFailure, `"web" is not a policy (want default)`},
	}.play(t, append(limit, "--store", at)...)
	policies := write(t, "policies.yaml", "store: "+at+"\npolicies: {default: {limits: [3/1h sliding-log]}}\n")
	commandRuns{
		{[]string{"allow", "me"}, exitOK, "allowed: 2 of 3 left"},
		{[]string{"allow", "me", "--limit", "1/1s"}, exitFailure, "leave out --limit"},
	}.play(t, "--config", policies)
	admin := []string{"--server", "http://" + listeners["admin"]}
	commandRuns{
		{[]string{"block", "eve"}, exitOK, "blocked"},
		{[]string{"block", "mallory", "--for", "1h"}, exitOK, "blocked"},
		{[]string{"override", "bob", "7/1h sliding-log"}, exitOK, "7/1h"},
		{[]string{"override", "carol", "--unlimited"}, exitOK, "unlimited"},
	}.play(t, admin...)
	commandRuns{
		{[]string{"allow", "eve"}, exitRefused, "refused by a ruling, with no end"},
		{[]string{"peek", "mallory"}, exitRefused, "refused by a ruling: retry in "},
		{[]string{"peek", "bob"}, exitOK, "allowed: 7 of 7 left"},
		{[]string{"peek", "carol"}, exitOK, "allowed without limits: unlimited"},
		{[]string{"peek", "eve", "--format", "json"}, exitRefused, `"by":"ruling"`},
	}.play(t, "--config", policies)
	client := node.Client(t)
	damage := client.B().Hset().Key("slidegate:{rulings}").FieldValue().FieldValue("text", "x").Build()
	if err := client.Do(t.Context(), damage).Error(); err != nil {
		t.Fatal(err)
	}
	commandRuns{{[]string{"peek", "me"}, exitFailure, "the rulings of operators cannot be read"}}.play(t, "--config", policies)
	node.Kill()
	commandRuns{{[]string{"allow", "me"}, exitFailure, "--store"}}.play(t, "--config", policies)
}
