package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// settleOf returns a request that settles a reservation of one charge.
func settleOf(limit *store.Limit, key string, id rule.ID, cost, used int64, at rule.Micros) store.Request {
	r := request(rule.Settle, limit, key, id, cost)
	r.Charges[0].Used, r.Charges[0].At = used, at
	return r
}

// settledName returns the name of the hash that remembers settlements at one address, of even generations (0) or odd
// ones (1).
func settledName(limit *store.Limit, key string, generation int) string {
	return fmt.Sprintf("%s%%settled-%d", nameOf(limit, key), generation)
}

// A reservation is settled once under every kind of limit: a repeated settlement changes nothing and gets the same
// answer.
func TestSettledOnce(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for name, l := range allKinds() {
		if name == "large-bucket" {
			continue // it may have refilled a unit before it is settled
		}
		limit := bindRule(t, "once", name, l)
		a := applyRequest(t, s, request(rule.Take, limit, "key", 7, 1))
		first := applyRequest(t, s, settleOf(limit, "key", 7, 1, 0, a.At))
		if first.Granted != 1 || first.Flags&rule.Repeated != 0 {
			t.Errorf("%s: first settlement got %+v", name, first)
		}
		left := applyRequest(t, s, request(rule.Peek, limit, "key", 0, 0)).Remaining
		for _, used := range []int64{0, 0, 1, 5} { // a repeated settlement may report any use
			again := applyRequest(t, s, settleOf(limit, "key", 7, 1, used, a.At))
			slot := l.Algorithm == rule.InFlight
			if (again.Flags&rule.Repeated != 0) == slot || !slot && again.Granted != 1 || again.Remaining != left {
				t.Errorf("%s: settled again, %d used: got %+v, want the first answer, and Remaining %d", name, used, again, left)
			}
		}
		if n := number(t, client, "EXISTS", settledName(limit, "key", 0), settledName(limit, "key", 1)); (n == 0) != (l.Algorithm == rule.InFlight) {
			t.Errorf("%s: got %d hashes of settlements", name, n)
		}
	}
}

// The number of remembered settlements is bounded. They are kept for at least the required time, longer if there is space, and
// their times are those of the key.
func TestSettlementsAreBounded(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	limit := bindRule(t, "bounded", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: minute})
	most, memory := limit.Rule().Settlements(), limit.Rule().Memory()
	settle := func(what string, id rule.ID, want rule.Flags) {
		t.Helper()
		if a := applyRequest(t, s, settleOf(limit, "key", id, 5, 5, 1)); a.Flags != want {
			t.Errorf("%s: got %+v, want the flags %v", what, a, want)
		}
	}
	for id := range rule.ID(most) {
		settle("of the first generation", id+1, 0)
	}
	now += memory - 1
	settle("one too many", 9998, rule.Unsettled)
	if n := number(t, client, "HLEN", settledName(limit, "key", 1)); n != most+1 {
		t.Errorf("got %d fields, want %d", n, most+1)
	}
	now++ // the next generation has space, and knows those of this one
	settle("of the second generation", 9999, 0)
	settle("of the first generation, again", 1, rule.Repeated)
	now += rule.LongMemory - 1
	settle("of the second generation too", 9998, 0)
	settle("of the first generation, again", 2, rule.Repeated)
	now++ // the second generation is long enough; the first one is dropped as a whole
	settle("of the third generation", 10000, 0)
	settle("of the second generation, again", 9999, rule.Repeated)
	settle("of the first generation, which was dropped", 1, 0)
	if n := number(t, client, "HLEN", settledName(limit, "key", 1)); n != 3 {
		t.Errorf("got %d fields of the third generation, want 3", n)
	}
	for id := range rule.ID(most - 2) {
		settle("of the third generation, which becomes full", 20_000+id, 0)
	}
	settle("one too many", 30_000, rule.Unsettled)
	now -= memory + 1 // the clock had jumped ahead
	settle("of a generation that begins before the full one ends", 30_000, 0)
	settle("of the full one, again", 20_000, rule.Repeated)
}

// The clock is set back between a charge and its settlement. The settlement is remembered as long as the units count.
func TestSettledBeforeTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	for name, l := range allKinds() {
		if l.Algorithm == rule.InFlight || l.Calendar != 0 {
			continue
		}
		now := rule.Micros(1_767_000_000e6)
		s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
		limit := bindRule(t, "back", name, l)
		at := applyRequest(t, s, request(rule.Take, limit, "key", 1, 5)).At
		now -= limit.Rule().Window / 2
		applyRequest(t, s, settleOf(limit, "key", 1, 5, 4, at))
		for now < at+limit.Rule().Window {
			a := applyRequest(t, s, settleOf(limit, "key", 1, 5, 0, at))
			if a.Flags&rule.Repeated == 0 || a.Granted != 1 {
				t.Errorf("%s, %v after the charge: got %+v, want Repeated, Granted 1", name, (now - at).Duration(), a)
			}
			now += limit.Rule().Window / 10
		}
	}
}

// The time of a settlement is that of the key, also if the clock was set back since the units were charged.
func TestSettledAtTheTimeOfTheKey(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	limit := bindRule(t, "key-time", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: minute})
	at := applyRequest(t, s, request(rule.Take, limit, "key", 1, 5)).At
	now -= minute / 2
	for id := range rule.ID(limit.Rule().Settlements()) {
		applyRequest(t, s, settleOf(limit, "key", id+1, 1, 1, 1))
	}
	for _, c := range []struct {
		after rule.Micros
		want  rule.Flags
	}{{limit.Rule().Memory() - 1, rule.Unsettled}, {limit.Rule().Memory(), 0}} {
		now = at + c.after
		if a := applyRequest(t, s, settleOf(limit, "key", 9999, 1, 1, 1)); a.Flags != c.want {
			t.Errorf("a full generation, %v after the charge: got %+v, want the flags %v", c.after.Duration(), a, c.want)
		}
	}
}

// The hashes expire when they are no longer needed.
func TestSettlementsExpire(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{Grace: 5 * time.Second})
	for _, window := range []rule.Micros{minute, hour} {
		limit := bindRule(t, "expire", "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: 100, Window: window})
		a := applyRequest(t, s, settleOf(limit, "key", 1, 1, 0, serverTime(t, client)))
		want := (a.At+2*max(limit.Rule().Memory(), rule.LongMemory))/1_000 + 5_000
		got := rule.Micros(number(t, client, "PEXPIRETIME", settledName(limit, "key", 1)))
		if took := (serverTime(t, client) - a.At) / 1_000; got < want-1 || got > want+1+took {
			t.Errorf("%v: got expiry at %d, want %d", window.Duration(), got, want)
		}
	}
}

// In a cluster the hashes are on the node of the first charge, alone and in a group, over several limits.
func TestSettleInACluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t).Client(t)
	s := newStore(t, client, redisstore.Options{})
	var batch []store.Request
	for i := range 40 {
		r := store.Request{Op: rule.Settle, ID: rule.ID(i/2 + 1), Group: []string{"", fmt.Sprint("group-", i/2)}[i/2%2]}
		for name, l := range allKinds() {
			limit := bindRule(t, "cluster", name, l)
			r.Charges = append(r.Charges, store.Charge{Limit: limit, Key: fmt.Sprint("key-", i/2), Cost: 1, Used: 4, At: 1})
		}
		if i%2 == 1 {
			r.Charges = batch[i-1].Charges // the same once more
		}
		r.Answers = make([]rule.Answer, len(r.Charges))
		batch = append(batch, r)
	}
	if err := s.Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	for i := range batch {
		for j, a := range batch[i].Answers {
			slot := batch[i].Charges[j].Limit.Rule().Algorithm == rule.InFlight
			if !slot && (a.Granted != -3 || (a.Flags&rule.Repeated != 0) != (i%2 == 1)) {
				t.Errorf("request %d, charge %d: got %+v, want Granted -3, Repeated %t", i, j, a, i%2 == 1)
			}
		}
	}
}

// A user without permission to remember settlements cannot settle: nothing changes, however often it is tried.
func TestSettleWithoutRights(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no", "user app on >word ~* +@all -hset")
	s := newStore(t, redistest.Client(t, rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true, Username: "app", Password: "word",
	}), redisstore.Options{Now: func() rule.Micros { return 1_767_000_000e6 }})
	for name, l := range allKinds() {
		if l.Algorithm == rule.InFlight {
			continue
		}
		limit := bindRule(t, "rights", name, l)
		a := applyRequest(t, s, request(rule.Take, limit, "key", 1, 3))
		for _, used := range []int64{0, 5} {
			err := s.Apply(context.Background(), []store.Request{settleOf(limit, "key", 1, 3, used, a.At)})
			if err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") {
				t.Errorf("%s: settled without permission to remember it: %v", name, err)
			}
		}
		if after := applyRequest(t, s, request(rule.Peek, limit, "key", 1, 0)); after.Remaining != a.Remaining {
			t.Errorf("%s: got %d remaining, want %d", name, after.Remaining, a.Remaining)
		}
	}
}

// A settlement is one call of the script, like a take.
func TestSettleIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	limit := bindRule(t, "trips", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: hour})
	a := applyRequest(t, s, request(rule.Take, limit, "key", 1, 50))
	do(t, client, "CONFIG", "RESETSTAT")
	for i := range 30 {
		applyRequest(t, s, settleOf(limit, "key", rule.ID(i/3+1), 5, 4, a.At))
	}
	if sha, text := calls(t, client, "evalsha"), calls(t, client, "eval"); sha != 30 || text != 0 {
		t.Errorf("30 settlements: got %d EVALSHA and %d EVAL, want 30 and 0", sha, text)
	}
}
