package redisstore_test

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// holding returns limits of every format of state, with Hold.
func holding(hold rule.Micros) map[string]rule.Limit {
	kinds := allKinds()
	for name, l := range kinds {
		if l.Hold, l.CountRefused = hold, false; l.Algorithm == rule.InFlight {
			delete(kinds, name)
			continue
		}
		kinds[name] = l
	}
	return kinds
}

// holdOf returns a request that holds units.
func holdOf(limit *store.Limit, key string, id rule.ID, cost int64) store.Request {
	r := request(rule.Take, limit, key, id, cost)
	r.Hold = true
	return r
}

// The value of a key has a form of its own as long as units of it are held, and not longer: then the fast paths decide about it again.
func TestValueWithHolds(t *testing.T) {
	t.Parallel()
	const held = 16
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for name, l := range holding(hour) {
		limit := bindRule(t, "holding", name, l)
		at := applyRequest(t, s, request(rule.Charge, limit, "key", 0, 1)).At
		plain := text(t, client, "GET", nameOf(limit, "key"))
		for id := range rule.ID(2) {
			applyRequest(t, s, holdOf(limit, "key", id+1, 2))
			value := text(t, client, "GET", nameOf(limit, "key"))
			if want := 17 + 32*(int(id)+1) + len(plain); len(value) != want || value[versionInHeader] != held {
				t.Errorf("%s: got a value of %d bytes and version %d, want %d and %d", name, len(value), value[versionInHeader], want, held)
			}
		}
		applyRequest(t, s, request(rule.Take, limit, "key", 0, 1)) // of the fast path's kind
		for id := range rule.ID(2) {
			applyRequest(t, s, settleOf(limit, "key", id+1, 2, 0, at))
		}
		if value := text(t, client, "GET", nameOf(limit, "key")); versionOf(limit, value) != versionOf(limit, plain) {
			t.Errorf("%s: got a value with version %d when nothing is held any more, want %d", name, versionOf(limit, value), versionOf(limit, plain))
		}
		if a := applyRequest(t, s, request(rule.Peek, limit, "key", 0, 1)); a.Remaining < limit.Rule().Capacity()-2 {
			t.Errorf("%s: got %+v, want what was charged, and nothing that was held", name, a)
		}
	}
}

// A key lives until what is held has ended, also if it counts nothing else, or if what was used ends before.
func TestKeysOutliveHolds(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for name, l := range holding(800 * hour) {
		limit := bindRule(t, "outlive", name, l)
		var slowest rule.Micros
		for i, r := range []store.Request{
			holdOf(limit, "key", 1, 2), request(rule.Take, limit, "key", 0, 1), request(rule.GiveBack, limit, "key", 0, 1), request(rule.Renew, limit, "key", 1, 0),
		} {
			before := serverTime(t, client)
			a := applyRequest(t, s, r)
			slowest = max(slowest, serverTime(t, client)-before)
			ends := a.At + 800*hour // or a little before, where the request renewed nothing
			until := rule.Micros(1_000 * number(t, client, "PEXPIRETIME", nameOf(limit, "key")))
			if off := until - ends - 1_000_000; off > 1_000+slowest || off < -minute {
				t.Errorf("%s, after request %d: the hold ends at %d, and the key lives until %d", name, i, ends, until)
			}
		}
	}
}

// At most 1,000 reservations hold units of a key; the next is refused, and the answer says why.
func TestTooManyHolds(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	limit := bindRule(t, "many", "holds", rule.Limit{Quota: 5_000, Window: minute, Hold: minute})
	var batch []store.Request
	for id := range rule.ID(rule.MaxHolds) {
		batch = append(batch, holdOf(limit, "key", id+1, 1))
	}
	if err := s.Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	now += 1e6
	if a := applyRequest(t, s, holdOf(limit, "key", 5_000, 1)); a.Allowed || a.Flags != rule.Held|rule.HoldsFull || a.RetryAfter != minute-1e6 {
		t.Errorf("one hold too many: got %+v, want it refused as full until the first has ended", a)
	}
	if a := applyRequest(t, s, holdOf(limit, "key", 7, 1)); !a.Allowed || a.Granted != 1 {
		t.Errorf("a hold again: got %+v, want it renewed", a)
	}
	if a := applyRequest(t, s, request(rule.Take, limit, "key", 0, 1)); !a.Allowed || a.Remaining != 3_999 {
		t.Errorf("a charge: got %+v, want it allowed, 3999 remaining", a)
	}
}

// A hash of what is remembered lives as long as the limit of one address that remembers longest needs it.
func TestMemoryOfAnotherHold(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	short := bindRule(t, "memory", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: minute})
	long := bindRule(t, "memory", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: minute, Hold: 30 * hour})
	for id, limit := range []*store.Limit{short, long, short} {
		a := applyRequest(t, s, settleOf(limit, "key", rule.ID(id+1), 1, 0, 1))
		until := rule.Micros(1_000 * number(t, client, "PEXPIRETIME", settledName(short, "key", 1)))
		if least := a.At + limit.Rule().Memory(); until < least {
			t.Errorf("settlement %d: remembered until %d, want at least %d", id+1, until, least)
		}
	}
	if a := applyRequest(t, s, settleOf(short, "key", 2, 1, 0, 1)); a.Flags&rule.Repeated == 0 {
		t.Errorf("settled again under another limit of the address: got %+v, want it known", a)
	}
}

// A generation is kept until all that it remembers has been remembered long enough, whatever limits settle afterwards.
func TestGenerationOfAnotherHold(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	short := bindRule(t, "generation", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: minute})
	long := bindRule(t, "generation", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: minute, Hold: 30 * hour})
	applyRequest(t, s, settleOf(long, "key", 1, 1, 0, 1))
	for id := range rule.ID(10) {
		now += 11 * minute
		applyRequest(t, s, settleOf(short, "key", id+2, 1, 0, 1))
	}
	if a := applyRequest(t, s, settleOf(long, "key", 1, 1, 0, 1)); a.Flags&rule.Repeated == 0 {
		t.Errorf("settled again after two hours: got %+v, want it known for 30", a)
	}
}
