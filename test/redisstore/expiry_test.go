package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/porttest"
	"github.com/slidegate/slidegate/test/redistest"
)

// A key lives until its state no longer matters, plus the grace period, and not longer. If the end moves with every charge,
// it is rounded up to the next eighth of a window.
func TestExpiry(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	for _, grace := range []time.Duration{0, 250 * time.Millisecond, time.Hour} {
		s := newStore(t, client, redisstore.Options{Grace: grace})
		if grace == 0 {
			grace = time.Second // the default
		}
		for _, limit := range porttest.Kinds() {
			bound := bind(t, "expiry-"+t.Name()+grace.String(), limit)
			var state rule.State
			var slowest rule.Micros // the end stays where the first request of a window put it
			name := nameOf(bound, "key")
			for _, step := range []struct {
				op   rule.Op
				cost int64
			}{
				{rule.Take, 3}, {rule.TakeUpTo, 2}, {rule.Take, 1}, {rule.GiveBack, 4},
				{rule.Charge, limit.Quota + 5}, // overdrawn: a bucket then needs longer than a window
				{rule.GiveBack, 2},
			} {
				charge := store.Charge{Limit: bound, Key: "key", Cost: step.cost}
				a := apply(t, s, step.op, charge)
				items := []rule.Item{{Limit: bound.Rule(), State: &state, Cost: step.cost}}
				rule.Decide(step.op, items, a.At, make([]rule.Answer, 1))
				end := bound.Rule().Expires(&state)
				until := 1_000 * number(t, client, "PEXPIRETIME", name)
				took := serverTime(t, client) - a.At // the server counts from when the script wrote, not from when it began
				slowest = max(slowest, took)
				kept := keptUntil(bound.Rule(), end)
				if off := rule.Micros(until) - kept - rule.Micros(grace.Microseconds()); rule.Micros(until) < end || max(off, -off) > 1_000+slowest {
					t.Errorf("%s, grace %v, after %+v: the state matters until %d, and the key lives until %d",
						limit.Name, grace, step, end, until)
				}
				kit.Eventually(t, "time to pass", func() bool { return serverTime(t, client) > a.At+took+20_000 })
			}
		}
	}
}

// keptUntil returns when the key of a state that ends at a time expires, without the grace.
func keptUntil(l *rule.Limit, end rule.Micros) rule.Micros {
	if quick.IsPair(l) {
		return end
	}
	eighth := l.Window / 8
	return end - end%eighth + eighth
}

// The expiry of a key moves with the end of its state, even if only a part of the value is written.
func TestExpiryMovesOn(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for _, limit := range porttest.Kinds() {
		limit.Window, limit.Quota, limit.Burst = 600*time.Millisecond, 1_000, 0
		bound := bind(t, "moving", limit)
		var state rule.State
		var begun, slowest rule.Micros // the server counts from when the script wrote, not from when it began
		for begun == 0 || serverTime(t, client) < begun+3*bound.Rule().Window/2 {
			a := apply(t, s, rule.Take, store.Charge{Limit: bound, Key: "key", Cost: 1})
			until := rule.Micros(1_000 * number(t, client, "PEXPIRETIME", nameOf(bound, "key")))
			if begun == 0 {
				begun = a.At
			}
			slowest = max(slowest, serverTime(t, client)-a.At)
			bound.Rule().TakeOne(&state, a.At, 1)
			if kept := keptUntil(bound.Rule(), bound.Rule().Expires(&state)) + 1_000_000; until < kept-1_000 || until > kept+1_000+slowest {
				t.Fatalf("%s, %v after its first charge: want the key to live until %d, got %d",
					limit.Name, (a.At - begun).Duration(), kept, until)
			}
		}
	}
}

// The same for slots, and for calendar windows.
func TestExpiryOfSlotsAndCalendars(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for name, l := range map[string]rule.Limit{
		"in-flight": {Algorithm: rule.InFlight, Quota: 3, Window: hour},
		"calendar":  {Quota: 10, Calendar: rule.Month, Zone: "Asia/Kolkata"},
	} {
		bound := bindRule(t, "expiry", name, l)
		var state rule.State
		var slowest rule.Micros // a request that writes nothing leaves the end where a slower one put it
		for i, op := range []rule.Op{rule.Take, rule.Take, rule.Renew, rule.GiveBack, rule.Take, rule.Settle} {
			r := request(op, bound, "key", rule.ID(i/2+1), 1)
			r.Charges[0].At = 1
			a := applyRequest(t, s, r)
			items := []rule.Item{{Limit: bound.Rule(), State: &state, Cost: 1, At: 1, ID: r.ID}}
			rule.Decide(op, items, a.At, make([]rule.Answer, 1))
			end := bound.Rule().Expires(&state)
			until := rule.Micros(1_000 * number(t, client, "PEXPIRETIME", nameOf(bound, "key")))
			slowest = max(slowest, serverTime(t, client)-a.At)
			if off := until - end - 1_000_000; end > 0 && (off < -1_000 || off > 1_000+slowest) {
				t.Errorf("%s, after request %d: the state matters until %d, and the key lives until %d", name, i, end, until)
			}
			if end == 0 && number(t, client, "EXISTS", nameOf(bound, "key")) != 0 {
				t.Errorf("%s, after request %d: the state no longer matters, but the key exists", name, i)
			}
		}
	}
}

// Every decision is made by the server's clock, to the microsecond.
func TestServerClockDecides(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for _, limit := range porttest.Kinds() {
		charge := store.Charge{Limit: bind(t, "clock", limit), Key: "key", Cost: 1}
		for range 10 {
			before := serverTime(t, client)
			a := apply(t, s, rule.Peek, charge)
			if after := serverTime(t, client); a.At < before || a.At > after {
				t.Errorf("%s: decided at %d, requested between %d and %d", limit.Name, a.At, before, after)
			}
		}
	}
}

// The server forgets a key at its end, and not before.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{Grace: time.Millisecond})
	for _, limit := range porttest.Kinds() {
		limit.Window = 60 * time.Millisecond
		bound := bind(t, "going", limit)
		charge := store.Charge{Limit: bound, Key: "key", Cost: 5}
		a := apply(t, s, rule.Take, charge)
		var state rule.State
		rule.Decide(rule.Take, []rule.Item{{Limit: bound.Rule(), State: &state, Cost: 5}}, a.At, make([]rule.Answer, 1))
		kit.Eventually(t, limit.Name+" to go", func() bool {
			return number(t, client, "EXISTS", nameOf(bound, "key")) == 0
		})
		if now, end := serverTime(t, client), bound.Rule().Expires(&state); now < end {
			t.Errorf("%s: gone at %d, and it mattered until %d", limit.Name, now, end)
		}
		if a := apply(t, s, rule.Take, charge); !a.Allowed || a.Remaining != bound.Rule().Capacity()-5 {
			t.Errorf("%s: afterwards: got %+v, want allowed, Remaining %d", limit.Name, a, bound.Rule().Capacity()-5)
		}
	}
}

// Requests that charge nothing leave nothing behind: neither a refusal, nor a peek, nor a cost of 0, nor a refund of
// units that do not exist.
func TestRefusalsWriteNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t) // a separate server, since the test counts changes
	s := newStore(t, client, redisstore.Options{})
	for _, limit := range porttest.Kinds() {
		bound := bind(t, "refusals", limit)
		full, fresh := store.Charge{Limit: bound, Key: "full"}, store.Charge{Limit: bound, Key: "fresh"}
		full.Cost = bound.Rule().Capacity()
		apply(t, s, rule.Take, full)
		name := nameOf(bound, "full")
		value, end, before := text(t, client, "DUMP", name), number(t, client, "PEXPIRETIME", name), changes(t, client)
		for _, cost := range []int64{0, 1, full.Cost, full.Cost + 1, rule.MaxQuota} {
			full.Cost, fresh.Cost = cost, cost
			for _, op := range []rule.Op{rule.Take, rule.TakeUpTo, rule.Peek} {
				if a := apply(t, s, op, full); a.Granted != 0 || cost > 0 && a.Allowed {
					t.Fatalf("%s: a full key admits %d: %+v", limit.Name, cost, a)
				}
			}
			apply(t, s, rule.Peek, fresh)
			apply(t, s, rule.GiveBack, fresh)
		}
		fresh.Cost = bound.Rule().Capacity() + 1
		apply(t, s, rule.Take, fresh)
		fresh.Cost = 0
		apply(t, s, rule.Charge, fresh)
		full.Cost, full.At = 1, serverTime(t, client)-2*bound.Rule().Window*rule.Micros(bound.Rule().Capacity())
		apply(t, s, rule.GiveBack, full) // of a time that has left the window
		if after := changes(t, client); after != before {
			t.Errorf("%s: got %d changes by requests that charge nothing", limit.Name, after-before)
		}
		if text(t, client, "DUMP", name) != value || number(t, client, "PEXPIRETIME", name) != end {
			t.Errorf("%s: a refusal changed the state or its end", limit.Name)
		}
		if number(t, client, "EXISTS", nameOf(bound, "fresh")) != 0 {
			t.Errorf("%s: a refusal left a key behind", limit.Name)
		}
	}
}

// A request over several limits that one of them refuses writes nothing to the others.
func TestRefusalOfOneWritesNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	request := store.Request{Op: rule.Take, Group: "group"}
	for _, limit := range porttest.Kinds() {
		request.Charges = append(request.Charges, store.Charge{Limit: bind(t, "one", limit), Key: "key", Cost: 1})
	}
	request.Charges[2].Cost = 11
	request.Answers = make([]rule.Answer, len(request.Charges))
	before := changes(t, client)
	for range 3 {
		if err := s.Apply(context.Background(), []store.Request{request}); err != nil {
			t.Fatal(err)
		}
	}
	if after := changes(t, client); after != before || number(t, client, "DBSIZE") != 0 {
		t.Errorf("got %d changes, %d keys", after-before, number(t, client, "DBSIZE"))
	}
}
