package kvstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func newStore(t testing.TB, engine kvstore.Engine, opts kvstore.Options) *kvstore.Store {
	t.Helper()
	return testkit.Must(kvstore.New(engine, opts))(t)
}

func TestContract(t *testing.T) {
	engine := &kvtest.Table{}
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute})
	})
}

func TestContractWithoutMemory(t *testing.T) {
	engine := &kvtest.Table{}
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute, Remember: -1})
	}, storetest.Options{Short: true})
}

// Keys that share an entry are still counted separately.
func TestContractWithCollidingNames(t *testing.T) {
	engine := &kvtest.Table{}
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		s := newStore(t, engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute})
		s.CollideForTest(0)
		return s
	}, storetest.Options{Short: true})
	if names := engine.Names(); len(names) != 1 {
		t.Errorf("the keys are in the entries %q, want one entry", names)
	}
}

func TestOptions(t *testing.T) {
	for want, opts := range map[string]kvstore.Options{
		`kvstore: prefix: "a b" is invalid; use only letters, digits and -`:               {Prefix: "a b"},
		`kvstore: prefix: "ä" is invalid; use only letters, digits and -`:                 {Prefix: "ä"},
		`kvstore: prefix: "` + strings.Repeat("a", 32) + `" has 32 bytes; use at most 31`: {Prefix: strings.Repeat("a", 32)},
		`kvstore: timeout: must not be negative, got -1s; 0 means one second`:             {Timeout: -time.Second},
		`kvstore: grace: must not be negative, got -1ns; 0 means one minute`:              {Grace: -1},
	} {
		if _, err := kvstore.New(&kvtest.Table{}, opts); err == nil || err.Error() != want {
			t.Errorf("%+v: got error %v, want %s", opts, err, want)
		}
	}
	if _, err := kvstore.New(nil, kvstore.Options{}); err == nil {
		t.Error("New(nil) returned no error")
	}
	engine := &kvtest.Table{}
	s := newStore(t, engine, kvstore.Options{Prefix: strings.Repeat("a", 31)})
	take(t, s, "key", true)
	if name := engine.Names()[0]; len(name) != 64 || !strings.HasPrefix(name, strings.Repeat("a", 31)+"-") {
		t.Errorf("the entry is named %q, want the prefix and 64 bytes in all", name)
	}
}

func TestTraits(t *testing.T) {
	want := store.Traits{Name: "table", MaxCharges: 64, OneKey: true, RoundTrips: 2, Calls: -1}
	if got := newStore(t, &kvtest.Table{}, kvstore.Options{}).Traits(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Stores with different prefixes count separately in one engine.
func TestPrefixesCountSeparately(t *testing.T) {
	engine := &kvtest.Table{}
	one, other := newStore(t, engine, kvstore.Options{Prefix: "one"}), newStore(t, engine, kvstore.Options{Prefix: "other"})
	for range quota {
		take(t, one, "key", true)
	}
	take(t, one, "key", false)
	take(t, other, "key", true)
}

// quota is the quota of hourly.
const quota = 5

var hourly = bind(rule.Limit{Quota: quota, Window: 3600e6, Segments: 1})

func bind(limit rule.Limit) *store.Limit {
	limit, err := limit.Normalize()
	if err != nil {
		panic(err)
	}
	return store.Bind("", "", "a limit", limit)
}

// request returns a request for one unit of a key.
func request(op rule.Op, key string) store.Request {
	return store.Request{Op: op, Charges: []store.Charge{{Limit: hourly, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1)}
}

// apply carries out an operation, and returns its answer.
func apply(t testing.TB, s store.Store, op rule.Op, key string) rule.Answer {
	t.Helper()
	batch := []store.Request{request(op, key)}
	if err := s.Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	return batch[0].Answers[0]
}

// take takes a unit of a key and checks whether that was allowed.
func take(t testing.TB, s store.Store, key string, allowed bool) {
	t.Helper()
	if a := apply(t, s, rule.Take, key); a.Allowed != allowed {
		t.Fatalf("%s: allowed: %v, want %v; %d remain", key, a.Allowed, allowed, a.Remaining)
	}
}

// used returns how many units of a key are used according to the engine.
func used(t testing.TB, engine kvstore.Engine, key string) int64 {
	t.Helper()
	return quota - apply(t, newStore(t, engine, kvstore.Options{}), rule.Peek, key).Remaining
}

func hourlyLimiter(t testing.TB, s store.Store, quota int64) *slidegate.Limiter {
	t.Helper()
	return testkit.Must(slidegate.New(s, slidegate.PerHour(quota)))(t)
}
