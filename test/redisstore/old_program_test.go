package redisstore_test

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// Programs of version 1 and of this version run side by side during an upgrade: each reads what the other wrote.

//go:embed testdata/decide-1.lua
var oldScript string

// oldProgram sends requests as version 1 did, with its script.
type oldProgram struct{ client rueidis.Client }

func numbers(to []byte, all ...int64) []byte {
	for _, n := range all {
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(float64(n)))
	}
	return to
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// take takes from one limit. A reply that version 1 could not read is an error.
func (p oldProgram) take(limit *store.Limit, key string, now rule.Micros, cost int64, shortWay bool) (allowed bool, err error) {
	l := limit.Rule()
	head := numbers(nil, int64(now), -1)
	var args []string
	if shortWay && l.IsPair() {
		head = append(head, bit(l.Algorithm == rule.FixedWindow), bit(l.Anchor == rule.AnchorFirst), bit(l.CountDenied), byte(l.Overlap))
		args = []string{string(numbers(head, l.Quota, int64(l.Window), cost))}
	} else {
		part := l.Window / rule.Micros(max(1, l.Segments))
		text := []byte{byte(rule.Take), 1, byte(l.Algorithm.Code()), byte(l.Overlap), bit(l.Anchor == rule.AnchorFirst), bit(l.CountDenied)}
		text = numbers(text, int64(l.Parts()), l.Quota, l.Burst, int64(l.Window), int64(part), cost, 0)
		args = []string{string(head), string(text)}
	}
	command := p.client.B().Eval().Script(oldScript).Numkeys(1).Key(nameOf(limit, key)).Arg(args...).Build()
	reply, err := p.client.Do(context.Background(), command).ToString()
	if err != nil {
		return false, err
	}
	want := 33 // the time, flags, three numbers
	if len(args) == 2 {
		want = 8 + 27 + int(reply[9]) + int(reply[10])<<8
	}
	if len(reply) != want {
		return false, fmt.Errorf("the reply has %d bytes, and version 1 reads %d", len(reply), want)
	}
	return reply[8]&1 != 0, nil
}

// bindRule binds a valid limit of the rule.
func bindRule(t testing.TB, namespace, name string, l rule.Limit) *store.Limit {
	t.Helper()
	l, err := l.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return store.Bind(namespace, name, name, l)
}

const (
	hour   = rule.Micros(3600e6)
	minute = rule.Micros(60e6)
)

// oldKinds are limits that version 1 knows, with all formats of state.
func oldKinds() map[string]rule.Limit {
	return map[string]rule.Limit{
		"window":       {Algorithm: rule.SlidingWindow, Quota: 10, Window: minute},
		"first":        {Algorithm: rule.SlidingWindow, Quota: 10, Window: minute, Anchor: rule.AnchorFirst},
		"parts":        {Algorithm: rule.SlidingWindow, Quota: 10, Window: minute, Segments: 6, Overlap: rule.OverlapWhole},
		"fixed":        {Algorithm: rule.FixedWindow, Quota: 10, Window: minute, CountDenied: true},
		"log":          {Algorithm: rule.SlidingLog, Quota: 10, Window: minute},
		"long-log":     {Algorithm: rule.SlidingLog, Quota: 600, Window: minute},
		"bucket":       {Algorithm: rule.TokenBucket, Quota: 7, Burst: 11, Window: minute},
		"large-bucket": {Algorithm: rule.TokenBucket, Quota: 1_000_003, Burst: 77, Window: hour},
	}
}

// rewrites reports whether this version writes the state of a limit in a format that version 1 does not know.
func rewrites(l rule.Limit) bool {
	return l.Algorithm == rule.SlidingLog || l.Segments > 1
}

// Together, the old and the new program admit what the rule admits of all requests: neither ignores what the
// other has charged, and neither denies units that are free. If the new program writes another format, this holds until it
// has written; from then on the old program gets an error, and changes nothing.
func TestOldAndNewProgramsShareCounts(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, l := range oldKinds() {
		denied := 0
		for game := range 5 {
			random := rand.New(rand.NewPCG(seed, uint64(game)))
			limit := bindRule(t, fmt.Sprint("sides-", game), name, l)
			now := rule.Micros(1_767_000_000e6)
			s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
			var state rule.State
			for step := range 300 {
				now += rule.Micros(random.Int64N(int64(l.Window) / max(1, int64(l.Quota)) * 2))
				cost := 1 + random.Int64N(max(3, limit.Rule().Capacity()/50))
				if random.IntN(100) == 0 {
					cost = limit.Rule().Capacity()
				}
				want, _ := limit.Rule().TakeOne(&state, now, cost)
				old := random.IntN(2) == 0
				if rewrites(l) {
					old = step < 150
				}
				by, got := "new", false
				if old {
					var err error
					by = "old"
					if got, err = (oldProgram{client}).take(limit, "key", now, cost, random.IntN(2) == 0); err != nil {
						t.Fatalf("%s, step %d: the old program cannot read: %v", name, step, err)
					}
				} else {
					a := apply(t, s, rule.Take, store.Charge{Limit: limit, Key: "key", Cost: cost})
					if got = a.Allowed; a != want {
						t.Fatalf("%s, step %d: the new program got %+v, want %+v", name, step, a, want)
					}
				}
				if got != want.Allowed {
					t.Fatalf("%s, step %d: the %s program got %v for %d, want %v", name, step, by, got, cost, want.Allowed)
				}
				if rewrites(l) && !old && got {
					checkRejected(t, client, limit, now)
				}
				denied += int(bit(!got))
			}
		}
		if denied < 50 || denied > 1_495 {
			t.Errorf("%s: %d of 1500 were denied: the test proves little", name, denied)
		}
	}
}

// checkRejected checks that version 1 rejects a value that this version wrote.
func checkRejected(t *testing.T, client rueidis.Client, limit *store.Limit, now rule.Micros) {
	t.Helper()
	before := text(t, client, "DUMP", nameOf(limit, "key"))
	if allowed, err := (oldProgram{client}).take(limit, "key", now, 1, false); err == nil {
		t.Fatalf("%v: the old program got %v from a state that it cannot know", limit.Rule().Algorithm, allowed)
	}
	if text(t, client, "DUMP", nameOf(limit, "key")) != before {
		t.Fatalf("%v: the old program has changed a state that it cannot know", limit.Rule().Algorithm)
	}
}

// Version 2 marked the values of version 1 with a byte, and had buckets without the byte for how their keys expire. Its
// values are read, and written in the format of this version with the next charge.
func TestValuesOfVersion2(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	now := rule.Micros(1_767_000_000e6)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	for name, l := range oldKinds() {
		for _, op := range []rule.Op{rule.Take, rule.Charge} {
			limit := bindRule(t, "version-2", name, l)
			key := fmt.Sprint(op)
			var state rule.State
			if limit.Rule().TakeOne(&state, now, 3); l.Algorithm == rule.TokenBucket {
				applyRequest(t, s, request(rule.Take, limit, key, 0, 3))
				value := text(t, client, "GET", nameOf(limit, key))
				do(t, client, "SET", nameOf(limit, key), value[:40]+"\x02")
			} else if _, err := (oldProgram{client}).take(limit, key, now, 3, false); err != nil {
				t.Fatal(err)
			} else if l.Algorithm == rule.SlidingLog {
				do(t, client, "APPEND", nameOf(limit, key), "\x02")
			}
			for step := range 3 {
				items, want := []rule.Item{{Limit: limit.Rule(), State: &state, Cost: 2}}, make([]rule.Answer, 1)
				rule.Decide(op, items, now, want)
				if got := applyRequest(t, s, request(op, limit, key, 0, 2)); got != want[0] {
					t.Errorf("%s, %v %d: %+v, want %+v", name, op, step, got, want[0])
				}
			}
			length := len(text(t, client, "GET", nameOf(limit, key)))
			if l.Algorithm == rule.TokenBucket && length != 42 || rewrites(l) && length >= 8+8*limit.Rule().Parts()+8*int(l.Quota) {
				t.Errorf("%s: after a charge: got a value of %d bytes, want the format of this version", name, length)
			}
		}
	}
}
