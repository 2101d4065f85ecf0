package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// allKinds returns limits of all formats of state.
func allKinds() map[string]rule.Limit {
	kinds := oldKinds()
	kinds["calendar"] = rule.Limit{Quota: 10, Calendar: rule.Month, Zone: "Europe/Berlin"}
	kinds["in-flight"] = rule.Limit{Algorithm: rule.InFlight, Quota: 10, Window: minute}
	return kinds
}

// request returns a request with one charge, for a reservation.
func request(op rule.Op, limit *store.Limit, key string, id rule.ID, cost int64) store.Request {
	return store.Request{
		Op: op, ID: id, Charges: []store.Charge{{Limit: limit, Key: key, Cost: cost}}, Answers: make([]rule.Answer, 1),
	}
}

// applyRequest sends one request that must succeed, and returns its first answer.
func applyRequest(t testing.TB, s *redisstore.Store, r store.Request) rule.Answer {
	t.Helper()
	if err := s.Apply(context.Background(), []store.Request{r}); err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

// versionOf returns the version of a value by its last byte, or by its header for a log; values of version 1 have none.
func versionOf(limit *store.Limit, value string) int {
	switch {
	case limit.Rule().Algorithm == rule.SlidingLog:
		return int(value[versionOfLog])
	case len(value)%8 == 0:
		return 1
	default:
		return int(value[len(value)-1])
	}
}

const versionOfLog = 24 // where a log has its version

// Each value has the version of its format. Windows in one part are still those of version 1.
func TestValuesHaveVersions(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for name, l := range allKinds() {
		limit := bindRule(t, "versions", name, l)
		want := 2
		switch {
		case limit.Rule().IsPair():
			want = 1
		case l.Algorithm == rule.SlidingLog, l.Algorithm == rule.SlidingWindow:
			want = 3
		}
		for i, op := range []rule.Op{rule.Take, rule.Take, rule.Charge, rule.Take, rule.Take} {
			applyRequest(t, s, request(op, limit, "key", rule.ID(i+1), 1))
			if value := text(t, client, "GET", nameOf(limit, "key")); versionOf(limit, value) != want {
				t.Errorf("%s, request %d: a value of %d bytes has version %d, want %d", name, i, len(value), versionOf(limit, value), want)
			}
		}
	}
}

// newer returns a value in a future version.
func newer(limit *store.Limit, value string) string {
	at := len(value) - 1
	switch {
	case limit.Rule().Algorithm == rule.SlidingLog:
		at = versionOfLog
	case versionOf(limit, value) == 1:
		value += "?"
		at++
	}
	return value[:at] + "\x04" + value[at+1:]
}

// makeNewer changes the value of a key to a future version.
func makeNewer(t *testing.T, client rueidis.Client, limit *store.Limit, key string) (dump string) {
	t.Helper()
	name := nameOf(limit, key)
	do(t, client, "SET", name, newer(limit, text(t, client, "GET", name)))
	return text(t, client, "DUMP", name)
}

// A value written by a newer program causes an error that says what to do, for every operation, and is not changed.
// Requests that share a call with it are answered.
func TestNewerValuesAreRejected(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	ops := []rule.Op{rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.Reset, rule.Settle, rule.Renew}
	for name, l := range allKinds() {
		limit := bindRule(t, "newer", name, l)
		applyRequest(t, s, request(rule.Charge, limit, "key", 1, 1))
		dump := makeNewer(t, client, limit, "key")
		for i, op := range ops {
			batch := []store.Request{
				request(op, limit, fmt.Sprint("before-", i), 1, 1), request(op, limit, "key", 1, 1), request(op, limit, fmt.Sprint("after-", i), 1, 1),
			}
			for _, alone := range [][]store.Request{batch[1:2], batch} {
				err := s.Apply(context.Background(), alone)
				if err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") || !strings.Contains(err.Error(), "upgrade this program") {
					t.Errorf("%s, %v: got error %v", name, op, err)
				}
			}
			if batch[0].Err != nil || batch[2].Err != nil || batch[1].Err == nil {
				t.Errorf("%s, %v: got the errors %v, %v and %v in a batch", name, op, batch[0].Err, batch[1].Err, batch[2].Err)
			}
			if op == rule.Take && (!batch[0].Answers[0].Allowed || !batch[2].Answers[0].Allowed) {
				t.Errorf("%s: the others got %+v and %+v", name, batch[0].Answers[0], batch[2].Answers[0])
			}
		}
		if text(t, client, "DUMP", nameOf(limit, "key")) != dump {
			t.Errorf("%s: the value of a newer program has changed", name)
		}
	}
}

// A long log, of which only a part is read, is rejected too.
func TestNewerLongLog(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	limit := bindRule(t, "newer", "long", rule.Limit{Algorithm: rule.SlidingLog, Quota: 1_000, Window: hour})
	for _, units := range []int64{127, 128, 129, 200, 600} {
		applyRequest(t, s, request(rule.Reset, limit, "key", 0, 0))
		applyRequest(t, s, request(rule.Take, limit, "key", 0, units))
		if a := applyRequest(t, s, request(rule.Peek, limit, "key", 0, 1)); a.Remaining != 1_000-units {
			t.Errorf("of %d units got %d remaining", units, a.Remaining)
		}
		makeNewer(t, client, limit, "key")
		if err := s.Apply(context.Background(), []store.Request{request(rule.Take, limit, "key", 0, 1)}); err == nil {
			t.Errorf("a log of %d units of a newer program was read", units)
		}
		do(t, client, "DEL", nameOf(limit, "key"))
	}
}

// A bucket of version 1 counts until it is full, and is then written in the format of this version.
func TestLegacyBucket(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	limit := bindRule(t, "legacy", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: 60, Burst: 100, Window: minute})
	do(t, client, "SET", nameOf(limit, "key"), string(numbers(nil, int64(now+30e6), 0))) // 30 units are missing
	if a := applyRequest(t, s, request(rule.Peek, limit, "key", 0, 1)); a.Remaining != 70 || a.ResetAfter != 30e6 {
		t.Errorf("a bucket that is full in 30 s: got %+v, want Remaining 70, ResetAfter 30e6", a)
	}
	now += 10e6
	if a := applyRequest(t, s, request(rule.Take, limit, "key", 0, 5)); !a.Allowed || a.Remaining != 75 {
		t.Errorf("ten seconds later: got %+v, want allowed, Remaining 75", a)
	}
	if got := versionOf(limit, text(t, client, "GET", nameOf(limit, "key"))); got != 2 {
		t.Errorf("after a charge it has version %d", got)
	}
}
