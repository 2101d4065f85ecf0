package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/opentest"
	"github.com/slidegate/slidegate/test/pgtest"
)

// delay is long, so that a busy machine does not turn one round trip into two.
const delay = 400 * time.Millisecond

// distant opens a store behind a wire, and returns it when its pool has two connections. The function sessions returns those that the
// server has.
func distant(t *testing.T) (c store.Connection, wire *faultproxy.Proxy, sessions func() string) {
	t.Helper()
	server := pgtest.Shared(t)
	wire = faultproxy.New(t, server.Addr())
	c = opentest.Opener(pgstore.Open).Open(t, server.URLAt(wire.Addr(), "application_name=distant", "pool_max_conns=2"))
	pool := server.Pool(t)
	const of = " FROM pg_stat_activity WHERE application_name = 'distant' AND datname = current_database()"
	kit.Eventually(t, "two connections", func() bool { return c.Err() == nil && queryNumber(t, pool, "SELECT count(*)"+of) == 2 })
	return c, wire, func() string { return queryText(t, pool, "SELECT array_agg(pid ORDER BY pid)::text"+of) }
}

// Statements are prepared before a connection is used: the first request of every kind takes one round trip.
func TestFirstRequestTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	c, wire, _ := distant(t)
	limit, log := bind(t, t.Name(), slidegate.PerHour(1000)), bind(t, t.Name(), slidegate.PerHour(10)) // a window and a log
	charge := func(l *store.Limit, key string) store.Charge { return store.Charge{Limit: l, Key: key, Cost: 1} }
	request := func(op rule.Op, charges ...store.Charge) store.Request {
		return store.Request{Op: op, Charges: charges, Answers: make([]rule.Answer, len(charges))}
	}
	wire.Slow(delay, 0)
	for name, batch := range map[string][]store.Request{
		"several":    {request(rule.Take, charge(limit, "a"), charge(log, "a"))},
		"batch":      {request(rule.Take, charge(limit, "a")), request(rule.Take, charge(limit, "b"))},
		"log":        {request(rule.Take, charge(log, "b"))},
		"logs":       {request(rule.Take, charge(log, "c")), request(rule.Take, charge(log, "d"))},
		"given back": {request(rule.GiveBack, charge(limit, "c"))},
	} {
		fastest := time.Hour
		for range 5 { // this machine may be busy
			start := time.Now()
			if err := c.Apply(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			if fastest = min(fastest, time.Since(start)); fastest < 2*delay {
				break
			}
		}
		if fastest < delay || fastest >= 2*delay {
			t.Errorf("%s: took %v, want one round trip of %v", name, fastest, delay)
		}
	}
}

// Callers that leave cost no connection: the calls that they shared, or had alone, go on.
func TestCallersThatLeaveCostNoConnection(t *testing.T) {
	t.Parallel()
	c, wire, sessions := distant(t)
	st := coalesce.New(c, coalesce.Options{Timeout: time.Minute})
	limit := bind(t, t.Name(), slidegate.PerHour(100))
	take := func(ctx context.Context, key string) (remaining int64, err error) {
		_, _, remaining, _, _, _, err = st.TakeSingle(ctx, limit, key, 1)
		return remaining, err
	}
	before := sessions()
	wire.Slow(delay, 0)
	for i := range 3 {
		short, cancel := context.WithTimeout(t.Context(), delay/8)
		if _, err := take(short, fmt.Sprint(i)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want it late", err)
		}
		cancel()
	}
	for i := range 3 { // they were carried out
		if remaining, err := take(t.Context(), fmt.Sprint(i)); remaining != 98 || err != nil {
			t.Errorf("key %d: got %d, %v, want 98", i, remaining, err)
		}
	}
	if after := sessions(); after != before {
		t.Errorf("the sessions are %s, and were %s", after, before)
	}
}

// With a mode for PgBouncer in transaction mode nothing is prepared.
func TestOpenBouncer(t *testing.T) {
	t.Parallel()
	at := pgtest.Bouncer(t, pgtest.Shared(t))
	for _, mode := range []string{"exec", "simple_protocol"} {
		c := opentest.Opener(pgstore.Open).Open(t, withParameter(at, "default_query_exec_mode="+mode+"&slidegate_prefix="+mode+"_"))
		opentest.Decides(t, c)
	}
}
