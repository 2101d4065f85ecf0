package pgstore_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/workers"
)

var historyLength = flag.Duration("history", 3*time.Second, "length of the histories that are checked for one unit too many")

// Four processes call one server over connections that are slowed, cut and reset, their statements time out, and the
// server is killed and started again. All answers are the rule's answers to the same requests in some order, in
// which unanswered requests are carried out or not: not one unit too many is ever admitted.
func TestHistory(t *testing.T) {
	t.Parallel()
	recordHistory(t, false)
}

// The same for a table that is not logged: only a crash empties it, as PostgreSQL
// documents.
func TestHistoryUnlogged(t *testing.T) {
	t.Parallel()
	recordHistory(t, true)
}

// recordHistory records a history and checks it. A server that is killed has handed its writes to the operating system,
// if not to the disk, so fsync changes nothing here except the speed.
func recordHistory(t *testing.T, unlogged bool) {
	t.Helper()
	server := migrated(t, pgtest.Start(t, "fsync = off", "synchronous_commit = on"), pgstore.Options{Unlogged: unlogged})
	wire := faultproxy.New(t, server.Addr())
	url := server.URLAt(wire.Addr(), "pool_max_conns=3", "statement_timeout=150", "connect_timeout=2")
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	r := &history.Recording{
		Processes: workers.Start(t, 4, "history "+url), Seed: seed, Length: *historyLength, Faults: map[string]int{},
	}
	d := &disturber{t: t, server: server, wire: wire, random: random, faults: r.Faults, crashes: &r.Forgets}
	r.Disturb = func(_ []history.Task, end time.Time) { d.end = end; d.disturb() }
	r.Enough = d.enough
	all := r.Run(t)
	if unlogged {
		all = append(all, r.Forgets...)
	}
	history.Verify(t, seed, all)
}

// disturber causes faults of a server and the connections to it.
type disturber struct {
	t       *testing.T
	server  *pgtest.Server
	wire    *faultproxy.Proxy
	random  *rand.Rand
	end     time.Time
	done    int
	faults  map[string]int
	crashes *[]history.Event
}

// pause lets the processes work, and reports whether time is left.
func (d *disturber) pause() bool {
	<-time.After(min(time.Until(d.end), time.Duration(100+d.random.IntN(300))*time.Millisecond))
	return time.Now().Before(d.end)
}

// faultNames lists the faults, all of which occur before any is repeated.
var faultNames = []string{"kill", "lock", "cut", "restart", "mute", "reset", "slow"}

// disturb causes a fault about three times a second until the end, and then heals all.
func (d *disturber) disturb() {
	d.t.Helper()
	for ; d.pause(); d.done++ {
		name := faultNames[d.random.IntN(len(faultNames))]
		if d.done < len(faultNames) {
			name = faultNames[d.done]
		}
		d.faults[name]++
		d.do(name)
	}
}

// enough reports whether the server was killed, statements timed out and connections were cut.
func (d *disturber) enough() bool { return d.done >= 3 }

func (d *disturber) do(name string) {
	d.t.Helper()
	switch name {
	case "kill":
		before := time.Now()
		d.server.Kill()
		d.server.Restart()
		*d.crashes = append(*d.crashes, history.Event{Forget: true, Client: -1, Call: before.UnixNano(), Return: time.Now().UnixNano()})
	case "restart": // a clean shutdown: nothing may be forgotten
		d.server.Restart()
	case "cut":
		d.wire.Cut()
		d.wire.Mend()
	case "lock":
		d.lock()
	case "slow":
		d.wire.Slow(30*time.Millisecond, 25*time.Millisecond)
		d.pause()
		d.wire.Heal()
	case "mute":
		d.wire.Mute(20 * time.Millisecond)
		d.pause()
		d.wire.Heal()
	case "reset":
		d.wire.Reset(5 * time.Millisecond)
		d.pause()
		d.wire.Heal()
	}
}

// lock locks the table for longer than a statement may take.
func (d *disturber) lock() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.server.URL())
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE slidegate_state; SELECT pg_sleep(0.2); COMMIT"); err != nil {
		d.t.Fatal(err)
	}
}
