package program_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// quiet are flags that close the listeners that a test does not need.
var quiet = []string{"--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off"}

// TestStartEndsIfRefused checks that a wrong password, role or database ends the start, with an error that names the store, the cause and
// the fix, and not the password; and that config check --connect finds the same.
func TestStartEndsIfRefused(t *testing.T) {
	db := pgtest.Start(t, "fsync = off").URL()
	base, _, _ := strings.Cut(db, "?")
	slash := strings.LastIndex(base, "/")
	for name, test := range map[string]struct{ url, cause string }{
		"redis":    {"redis://app:wrong-hunter2@" + redistest.Server(t, "user app on >hunter2 ~* &* +@all").Addr(), "WRONGPASS"},
		"postgres": {base[:slash] + "/nosuch" + strings.TrimPrefix(db[len(base)-len(base[slash:]):], base[slash:]), `"nosuch" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "slidegate.yaml", "store: "+test.url+"\npolicies: {default: {limits: [3/1h]}}\n")
			for _, args := range [][]string{
				append([]string{"serve", "--store", test.url}, quiet...), append([]string{"serve", "--config", file}, quiet...),
				{"proxy", "--to", "http://127.0.0.1:1", "--http", "127.0.0.1:0", "--admin", "off", "--store", test.url}, {"config", "check", "--connect", file},
			} {
				status, _, errs := call(t, args...)
				for _, want := range []string{name, test.cause, "correct the user, the password, the role or the database"} {
					if status != exitFailure || !strings.Contains(errs, want) {
						t.Errorf("%s: got status %d and\n%s\nwant %d and %q", args[0], status, errs, exitFailure, want)
					}
				}
				if strings.Contains(errs, "wrong-hunter2") {
					t.Errorf("%s: the error contains the password: %s", args[0], errs)
				}
			}
		})
	}
}

// TestStartWithoutStore checks that a store that is down or read-only does not end the start, unless it is required, and that
// config check --connect reports it.
func TestStartWithoutStore(t *testing.T) {
	node := redistest.Server(t, "maxclients 100")
	at := "redis://" + node.Addr()
	file := write(t, "slidegate.yaml", "store: "+at+"\npolicies: {default: {limits: [3/1h]}}\n")
	serve := append([]string{"serve", "--config", file}, quiet...)
	check := func(cause string) {
		t.Helper()
		welcome := start(t, "curl -i ", serve...)
		if !strings.Contains(welcome, "  store     redis; while it does not answer: local (each instance counts by itself") {
			t.Errorf("%s: the banner does not say what decides:\n%s", cause, welcome)
		}
		for _, args := range [][]string{append(serve, "--require-store"), {"config", "check", "--connect", file}} {
			if status, _, errs := call(t, args...); status != exitFailure || !strings.Contains(errs, file+":1:8: store: redis: ") || !strings.Contains(errs, cause) {
				t.Errorf("%s: got status %d and\n%s\nwant %d and %q at the store of the file", args[0], status, errs, exitFailure, cause)
			}
		}
		if status, out, errs := call(t, "config", "check", file); status != exitOK {
			t.Errorf("config check without --connect: got status %d, %s%s", status, out, errs)
		}
	}
	client := node.Client(t)
	testkit.NoError(t, client.Do(t.Context(), client.B().Replicaof().Host("127.0.0.1").Port(1).Build()).Error())
	check("READONLY")
	testkit.NoError(t, client.Do(t.Context(), client.B().Arbitrary("REPLICAOF", "NO", "ONE").Build()).Error())
	if status, out, errs := call(t, "config", "check", "--connect", file); status != exitOK || !strings.Contains(out, "connected to redis") {
		t.Errorf("with the store: got status %d, %s%s, want that it is connected", status, out, errs)
	}
	start(t, "curl -i ", append(serve, "--require-store")...)
	node.Kill()
	check("connection refused")
}

// TestCommandsNameTheFailureMode checks that the text of a decision that a service made without its store says so.
func TestCommandsNameTheFailureMode(t *testing.T) {
	file := write(t, "slidegate.yaml", "store: redis://127.0.0.1:1\ndefault_policy: local\npolicies:\n"+
		"  local: {limits: [1/1h]}\n  open: {limits: [1/1h], failure: open}\n  closed: {limits: [1/1h], failure: closed}\n")
	listeners := serve(t, "--config", file)
	commandRuns{
		{[]string{"allow", "me"}, exitOK, "allowed: 0 of 1 left, resets in 1h0m0s; the store does not answer, so failure mode local decided"},
		{[]string{"allow", "me"}, exitRefused, "so failure mode local decided"},
		{[]string{"allow", "me", "--policy", "open"}, exitOK, "allowed by failure mode open: the store does not answer, so nothing was counted"},
		{[]string{"allow", "me", "--policy", "open", "--format", "json"}, exitOK, `"remaining":null`},
		{[]string{"allow", "me", "--policy", "closed"}, exitFailure, "The store does not answer, and failure mode closed refuses all requests"},
	}.play(t, "--server", "http://"+listeners["http"])
	commandRuns{
		{[]string{"explain", "me", "--policy", "open"}, exitOK, "allowed, by failure mode open, because the store does not answer"},
		{[]string{"explain", "me", "--policy", "open"}, exitOK, "what is left is not known"},
		{[]string{"reset", "me"}, exitFailure, "store"},
	}.play(t, "--server", "http://"+listeners["admin"])
}
