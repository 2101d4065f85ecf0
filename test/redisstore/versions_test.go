package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

const (
	hour   = rule.Micros(3600e6)
	minute = rule.Micros(60e6)
)

// bindRule binds a valid limit of the rule.
func bindRule(t testing.TB, namespace, name string, l rule.Limit) *store.Limit {
	t.Helper()
	l, err := l.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return store.Bind(namespace, name, name, l)
}

// fastKinds returns limits of all formats of state that have a fast path.
func fastKinds() map[string]rule.Limit {
	return map[string]rule.Limit{
		"window":       {Algorithm: rule.SlidingWindow, Quota: 10, Window: minute},
		"first":        {Algorithm: rule.SlidingWindow, Quota: 10, Window: minute, Anchor: rule.AnchorFirst},
		"parts":        {Algorithm: rule.SlidingWindow, Quota: 10, Window: minute, Segments: 6, Overlap: rule.OverlapWhole},
		"fixed":        {Algorithm: rule.FixedWindow, Quota: 10, Window: minute, CountRefused: true},
		"default":      {Quota: 10, Window: minute},
		"in-parts":     {Quota: 1_000, Window: minute},
		"log":          {Algorithm: rule.SlidingLog, Quota: 10, Window: minute},
		"long-log":     {Algorithm: rule.SlidingLog, Quota: 600, Window: minute},
		"bucket":       {Algorithm: rule.TokenBucket, Quota: 7, Burst: 11, Window: minute},
		"large-bucket": {Algorithm: rule.TokenBucket, Quota: 1_000_003, Burst: 77, Window: hour},
	}
}

// allKinds returns limits of all formats of state.
func allKinds() map[string]rule.Limit {
	kinds := fastKinds()
	kinds["wide-parts"] = rule.Limit{Algorithm: rule.SlidingWindow, Quota: 1_000_000, Window: minute, Segments: 6}
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

// versionOf returns the version of a value by its last byte, or by its header for a log and for parts; 0 if it has none.
func versionOf(limit *store.Limit, value string) int {
	switch {
	case hasHeader(limit):
		return int(value[versionInHeader])
	case len(value)%8 == 0:
		return 0
	default:
		return int(value[len(value)-1])
	}
}

func hasHeader(limit *store.Limit) bool {
	l := limit.Rule()
	return l.Algorithm == rule.SlidingLog || l.Parts() > 2
}

const versionInHeader = 16 // where a header has the version

// Each value has the version of its format, except windows in one part.
func TestValuesHaveVersions(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for name, l := range allKinds() {
		limit := bindRule(t, "versions", name, l)
		want := 1
		switch {
		case quick.IsPair(limit.Rule()):
			want = 0
		case name == "parts" || name == "in-parts":
			want = 2
		case name == "wide-parts":
			want = 3
			applyRequest(t, s, request(rule.Charge, limit, "key", 0, 65_536))
		}
		for i, op := range []rule.Op{rule.Take, rule.Take, rule.Charge, rule.Take, rule.Take} {
			applyRequest(t, s, request(op, limit, "key", rule.ID(i+1), 1))
			if value := text(t, client, "GET", nameOf(limit, "key")); versionOf(limit, value) != want {
				t.Errorf("%s, request %d: a value of %d bytes has version %d, want %d", name, i, len(value), versionOf(limit, value), want)
			}
		}
	}
}

// withVersion returns a value with another version.
func withVersion(limit *store.Limit, value string, version byte) string {
	at := len(value) - 1
	switch {
	case hasHeader(limit):
		at = versionInHeader
	case versionOf(limit, value) == 0:
		value += "?"
		at++
	}
	return value[:at] + string([]byte{version}) + value[at+1:]
}

// A value of another version causes an error that names it and says what to do, for every operation, and is not changed.
// Requests that share a call with it are answered.
func TestRejectsOtherVersions(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	ops := []rule.Op{rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.Reset, rule.Settle, rule.Renew}
	for name, l := range allKinds() {
		limit := bindRule(t, "other", name, l)
		applyRequest(t, s, request(rule.Charge, limit, "key", 1, 1))
		value := text(t, client, "GET", nameOf(limit, "key"))
		for i, op := range ops {
			version := []byte{0, 9, 200}[i%3]
			changed := withVersion(limit, value, version)
			do(t, client, "SET", nameOf(limit, "key"), changed)
			batch := []store.Request{
				request(op, limit, fmt.Sprint("before-", i), 1, 1), request(op, limit, "key", 1, 1), request(op, limit, fmt.Sprint("after-", i), 1, 1),
			}
			for _, alone := range [][]store.Request{batch[1:2], batch} {
				err := s.Apply(context.Background(), alone)
				if err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") || !strings.Contains(err.Error(), fmt.Sprintf("has format %d, and this program reads the formats 1 to 3 and 16; upgrade this program", version)) {
					t.Errorf("%s, %v: got error %v", name, op, err)
				}
			}
			if batch[0].Err != nil || batch[2].Err != nil || batch[1].Err == nil {
				t.Errorf("%s, %v: got the errors %v, %v and %v in a batch", name, op, batch[0].Err, batch[1].Err, batch[2].Err)
			}
			if op == rule.Take && (!batch[0].Answers[0].Allowed || !batch[2].Answers[0].Allowed) {
				t.Errorf("%s: the others got %+v and %+v", name, batch[0].Answers[0], batch[2].Answers[0])
			}
			if text(t, client, "GET", nameOf(limit, "key")) != changed {
				t.Errorf("%s, %v: the value of another version has changed", name, op)
			}
		}
	}
}

// A long log, of which only a part is read, is rejected too.
func TestRejectsOtherVersionOfLongLog(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	limit := bindRule(t, "other", "long", rule.Limit{Algorithm: rule.SlidingLog, Quota: 1_000, Window: hour})
	for _, units := range []int64{127, 128, 129, 200, 600} {
		applyRequest(t, s, request(rule.Reset, limit, "key", 0, 0))
		applyRequest(t, s, request(rule.Take, limit, "key", 0, units))
		if a := applyRequest(t, s, request(rule.Peek, limit, "key", 0, 1)); a.Remaining != 1_000-units {
			t.Errorf("of %d units got %d remaining", units, a.Remaining)
		}
		do(t, client, "SET", nameOf(limit, "key"), withVersion(limit, text(t, client, "GET", nameOf(limit, "key")), 2))
		if err := s.Apply(context.Background(), []store.Request{request(rule.Take, limit, "key", 0, 1)}); err == nil {
			t.Errorf("a log of %d units of another version was read", units)
		}
		do(t, client, "DEL", nameOf(limit, "key"))
	}
}
