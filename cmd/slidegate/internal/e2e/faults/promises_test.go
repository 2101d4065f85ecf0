package faults_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// patient is the program with more time for the store than by default, because the machine may be busy.
func patient() program { return program{name: "new", path: built, timeout: 500 * time.Millisecond} }

// find returns a fault of faults.
func find(t *testing.T, store, name string) fault {
	t.Helper()
	for _, f := range faults() {
		if f.store == store && f.name == name {
			return f
		}
	}
	t.Fatalf("there is no fault %q of %s", name, store)
	return fault{}
}

// TestPromises checks what is promised of a store that is away, read-only, or slow for some keys: nobody who was refused is admitted,
// nobody gets more than a quota in one process, and health says what is so.
func TestPromises(t *testing.T) {
	for _, c := range []struct {
		store, fault string
		lasts        time.Duration
		away         bool // no charge can be written
	}{
		{"Redis", "stopped", 2 * time.Second, true},
		{"Redis", "READONLY", 2 * time.Second, true},
		{"PostgreSQL", "one row locked", 4 * time.Second, false},
	} {
		t.Run(c.store+"/"+c.fault, func(t *testing.T) {
			t.Parallel()
			p := patient()
			if !c.away {
				p.timeout = time.Second // only the locked row may be late, also on a machine that is very busy
			}
			r := measure(t, find(t, c.store, c.fault), p, c.lasts)
			t.Log(r.markdown())
			r.checkClients(t)
			if c.away {
				r.checkOutage(t)
			} else {
				r.checkNoOutage(t)
			}
		})
	}
}

// checkClients checks what clients got.
func (r *row) checkClients(t *testing.T) {
	t.Helper()
	if r.ended != "" || r.failed > 0 {
		t.Fatalf("the program ended with %q, and %d requests failed", r.ended, r.failed)
	}
	if r.usedAdmitted > 0 {
		t.Errorf("keys that had been refused were admitted %d times, want 0", r.usedAdmitted)
	}
	if n := most(r.freshByMode); n == 0 || n > quota {
		t.Errorf("a key was admitted %d times without the store, want 1 to %d", n, quota)
	}
	if r.fallbacks[fresh] == 0 {
		t.Error("the store decided everything, so the fault was none")
	}
	if r.recovered < 0 || !r.upAgain {
		t.Errorf("after the fault: recovered after %v, health is well: %t", r.recovered, r.upAgain)
	}
}

// checkOutage checks what is said of a store to which nothing can be written.
func (r *row) checkOutage(t *testing.T) {
	t.Helper()
	if last(r.storeUp) != "0" || last(r.ready) != "200 degraded" {
		t.Errorf("store_up: %s; /readyz: %s; want 0 and 200 degraded in the end", r.storeUp, r.ready)
	}
	if r.log["ERROR"] == 0 || r.log["ERROR"] > 2 {
		t.Errorf("%d lines of level ERROR, want one at the beginning of the outage, and perhaps one at its end: %v", r.log["ERROR"], r.logged)
	}
}

// checkNoOutage checks that a store that is slow for some keys is not said to be away.
func (r *row) checkNoOutage(t *testing.T) {
	t.Helper()
	if r.storeUp != "1" || r.ready != "200" || r.log["ERROR"] > 0 {
		t.Errorf("store_up: %s; /readyz: %s; log: %v; want 1, 200 and no ERROR", r.storeUp, r.ready, r.logged)
	}
	if r.fallbacks[others] > 0.05 { // the machine may be busy
		t.Errorf("a failure mode decided %.0f %% of the requests for other keys, want none", 100*r.fallbacks[others])
	}
}

// TestBusyClientsAreRefused checks that a client that has used up its quota gets nothing by being busy, or by others that are, where
// it was refused, and at most a quota on another instance.
func TestBusyClientsAreRefused(t *testing.T) {
	s := pgtest.Start(t, "fsync = off")
	p := program{name: "new", path: built} // with the default timeout: no caller's wait may open a way
	first, second := serve(t, p, policies(s.URL(), p)), serve(t, p, policies(s.URL(), p))
	for name, c := range map[string]*count{
		"beside invented keys": usedUpClient(t, first, second, "attacked", 8, 2*time.Second),
		"by itself":            hammer(t, first, second, "hammered", 90, 2*time.Second),
	} {
		t.Logf("%s: %d requests, %d decided by the failure mode", name, c.requests.Load(), c.fallbacks.Load())
		if c.requests.Load() == 0 || c.first.Load() > 0 || c.second.Load() > quota {
			t.Errorf("%s: of %d requests %d were admitted where it had been refused, want 0, and %d on the other instance, want at most %d",
				name, c.requests.Load(), c.first.Load(), c.second.Load(), quota)
		}
	}
}

// TestReadiness checks that /readyz takes an instance out of a balancer only if it cannot decide, or if the operator wants that.
func TestReadiness(t *testing.T) {
	t.Parallel()
	node := redistest.Server(t, "appendonly no")
	send := redisCommands(t, node.Addr())
	closed := patient()
	closed.mode = "closed"
	able, unable := serve(t, patient(), policies("redis://"+node.Addr(), patient())), serve(t, closed, policies("redis://"+node.Addr(), closed))
	ready(t, able, unable)
	readiness := func(when, wantAble, wantUnable string, required int) {
		t.Helper()
		testkit.Eventually(t, when+", /readyz is "+wantAble+" and "+wantUnable, func() bool {
			status, _ := able.get("/readyz?require=store")
			return able.ready() == wantAble && strings.HasPrefix(unable.ready(), wantUnable) && status == required
		})
	}
	readiness("before", "200", "200", 200)
	testkit.NoError(t, send("replicaof 127.0.0.1 1"))
	readiness("while Redis is read-only", "200 degraded", "503", 503)
	testkit.NoError(t, send("replicaof no one"))
	readiness("afterwards", "200", "200", 200)
}

// TestRefusalsStay checks that a client whose quota is used up hears that in every mode, with the time that is left, while Redis is
// read-only; a 503 means only that nothing is known about its quota.
func TestRefusalsStay(t *testing.T) {
	t.Parallel()
	node := redistest.Server(t, "appendonly no")
	send := redisCommands(t, node.Addr())
	services := map[string]*service{}
	for _, mode := range []string{"open", "local", "closed"} {
		p := patient()
		p.mode = mode
		services[mode] = serve(t, p, policies("redis://"+node.Addr(), p))
		services[mode].useUp(t, "default", mode)
	}
	testkit.NoError(t, send("replicaof 127.0.0.1 1"))
	for mode, s := range services {
		known := s.ask("default", "new "+mode) // which finds the outage
		if want := mode != "closed"; known.admitted() != want || !want && known.status != http.StatusServiceUnavailable {
			t.Errorf("%s: a client that is not known: got %+v, want that it is admitted: %t, or a 503", mode, known, want)
		}
		d := s.ask("default", mode)
		if d.status != http.StatusTooManyRequests || d.RetryAfter <= 0 || d.RetryAfter > time.Hour.Microseconds() ||
			!slices.Contains(d.Flags, "cached") || !slices.Contains(d.Flags, "fallback_local") {
			t.Errorf("%s: got %+v, want a 429 from memory, with the time that is left", mode, d)
		}
	}
}

// TestStart checks which stores end the program when it starts: those that refuse it, not those that may come.
func TestStart(t *testing.T) {
	unknown := fault{"Redis", "unknown name at the start", func(*testing.T, program) setting {
		return setting{url: "redis://no-such-host.invalid:6379", begin: nothing}
	}}
	for _, c := range []struct {
		fault fault
		ends  bool
	}{
		{find(t, "Redis", "wrong password at the start"), true},
		{find(t, "PostgreSQL", "no such role at the start"), true},
		{find(t, "PostgreSQL", "no such database at the start"), true},
		{find(t, "Redis", "refused at the start"), false},
		{find(t, "Redis", "READONLY at the start"), false},
		{unknown, false},
	} {
		t.Run(c.fault.store+"/"+c.fault.name, func(t *testing.T) {
			t.Parallel()
			set := c.fault.open(t, patient())
			set.begin()
			s := serve(t, patient(), policies(set.url, patient()))
			if c.ends {
				testkit.Eventually(t, "the program ends", s.Over)
				return
			}
			if d := s.ask("default", "key"); s.Over() || !d.admitted() || !d.fallback() {
				t.Errorf("got %+v, want an admission by the failure mode: %s", d, s.Output.String())
			}
		})
	}
}
