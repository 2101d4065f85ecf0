package kvstore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// An entry that this version cannot read is left as it is, and the error says what to do.
func TestUnreadableEntries(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		want  string
		newer bool
	}{
		"newer":             {"\x02anything", "format 2, and this version reads formats up to 1; upgrade this program", true},
		"other":             {"{}", "format 123", true},
		"no version":        {"\x00", "delete it, or set another prefix", false},
		"no time":           {"\x01", "delete it, or set another prefix", false},
		"cut off":           {"\x01\x00\x05ab", "delete it, or set another prefix", false},
		"without an ID":     {"\x01\x00\x00\x02\x00", "delete it, or set another prefix", false},
		"one address twice": {"\x01\x00\x02\x01a\x02\x00\x02\x01a\x02\x00", "delete it, or set another prefix", false},
	} {
		engine := &kvtest.Table{}
		s := newStore(t, engine, kvstore.Options{})
		take(t, s, "key", true)
		entry := engine.Names()[0]
		engine.Put(entry, []byte(c.value))
		before := engine.Counts().Swaps
		for range 2 {
			err := s.Apply(t.Context(), []store.Request{request(rule.Take, "key")})
			if err == nil || !strings.HasPrefix(err.Error(), "kvstore: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "upgrade this program") != c.newer {
				t.Errorf("%s: got error %v, want one that contains %q", name, err, c.want)
			}
		}
		if value, _, _ := engine.Get(t.Context(), entry); string(value) != c.value || engine.Counts().Swaps > before+1 {
			t.Errorf("%s: the entry was changed", name)
		}
	}
}

// If one state of an entry is damaged, only the requests for that state fail.
func TestDamagedState(t *testing.T) {
	for _, op := range []rule.Op{rule.Take, rule.Settle} {
		engine := &kvtest.Table{}
		grouped := func(op rule.Op, key string) store.Request {
			r := request(op, key)
			r.Group, r.ID = "group", 7
			return r
		}
		batch := []store.Request{grouped(op, "damaged"), grouped(op, "whole")}
		if err := newStore(t, engine, kvstore.Options{}).Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		entry := engine.Names()[0]
		value, _, _ := engine.Get(t.Context(), entry)
		engine.Put(entry, damage(t, value, "damaged"))
		batch = []store.Request{grouped(op, "damaged"), grouped(op, "whole"), grouped(op, "damaged"), grouped(op, "damaged")}
		err := newStore(t, engine, kvstore.Options{}).Apply(t.Context(), batch)
		if err == nil || batch[0].Err == nil || batch[1].Err != nil || batch[2].Err == nil || batch[3].Err == nil {
			t.Errorf("op %d: %v; the errors are %v, %v, %v and %v, want one for each except the second", op, err, batch[0].Err, batch[1].Err, batch[2].Err, batch[3].Err)
		}
	}
}

// damage overwrites what an entry contains for a key, and leaves the entry itself readable.
func damage(t *testing.T, value []byte, key string) []byte {
	t.Helper()
	value = bytes.Clone(value)
	found := false
	field := func(at int) (from, to int) {
		length, size := binary.Uvarint(value[at:])
		return at + size, at + size + int(length)
	}
	_, size := binary.Varint(value[1:]) // the time
	for at := 1 + size; at < len(value); {
		from, to := field(at)
		id := value[from:to]
		_, size := binary.Varint(value[to:])
		from, to = field(to + size)
		if at = to; bytes.Contains(id, []byte(key)) {
			copy(value[from:to], bytes.Repeat([]byte{0xff}, to-from))
			found = true
		}
	}
	if !found {
		t.Fatalf("no %s in %q", key, value)
	}
	return value
}

// A request that would make an entry too large fails. The other requests of its batch are decided.
func TestTooLargeEntry(t *testing.T) {
	engine := &kvtest.Table{MaxValue: 400}
	s := newStore(t, engine, kvstore.Options{})
	batch := make([]store.Request, 40)
	for i := range batch {
		batch[i] = request(rule.Take, fmt.Sprintf("key %d", i/2))
		batch[i].Group = "group"
	}
	err := s.Apply(t.Context(), batch)
	if err == nil || !strings.Contains(err.Error(), "table takes at most 400; use fewer limits per key, fewer keys per group") {
		t.Errorf("got error %v, want one about the size", err)
	}
	fit := 0
	for i := range batch {
		if batch[i].Err != nil {
			continue
		}
		if fit++; batch[i].Answers[0].Remaining != int64(quota-1-i%2) {
			t.Errorf("request %d: %d remain", i, batch[i].Answers[0].Remaining)
		}
	}
	if fit < 10 || fit > 20 {
		t.Errorf("%d of %d requests were decided, want as many as fit", fit, len(batch))
	}
	value, _, _ := engine.Get(context.Background(), engine.Names()[0])
	if len(value) < 300 || len(value) > 400 {
		t.Errorf("the entry has %d bytes, want almost 400", len(value))
	}
}

// Settlements are remembered in their entry, and carried out once.
func TestSettleInAGroup(t *testing.T) {
	engine := &kvtest.Table{}
	settle := func(id rule.ID) store.Request {
		r := request(rule.Settle, "key")
		r.Group, r.ID, r.Charges[0].Used = "group", id, 0
		return r
	}
	take := request(rule.Charge, "key")
	take.Group, take.Charges[0].Cost = "group", quota
	batch := []store.Request{take, settle(1), settle(1), settle(2), settle(1), settle(2)}
	for i := range batch {
		batch[i].Charges[0].At = rule.Oldest
	}
	if err := newStore(t, engine, kvstore.Options{}).Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if got := batch[len(batch)-1].Answers[0].Remaining; got != 2 {
		t.Errorf("%d remain, want the units of two settlements", got)
	}
}

// When the IDs take a quarter of the largest value, calls are charged and flagged instead of failing, and the entry grows no more.
func TestMemoryOfIDsIsBounded(t *testing.T) {
	engine := &kvtest.Table{MaxValue: 4_000}
	s := newStore(t, engine, kvstore.Options{})
	limit := bind(rule.Limit{Algorithm: rule.FixedWindow, Quota: 1_000, Window: 3600e6})
	send := func(id rule.ID) rule.Answer {
		r := []store.Request{{Op: rule.Take, ID: id, Once: true, Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)}}
		if err := s.Apply(t.Context(), r); err != nil {
			t.Fatalf("call %d: %v", id, err)
		}
		return r[0].Answers[0]
	}
	known := 0
	for id := rule.ID(1); id <= 500; id++ {
		if a := send(id); !a.Allowed || a.Remaining != 1_000-int64(id) {
			t.Fatalf("call %d: got %+v, want it charged", id, a)
		} else if a.Flags == 0 {
			known++
		} else if a.Flags != rule.NotOnce {
			t.Fatalf("call %d: got %+v, want NotOnce", id, a)
		}
	}
	if known < 30 || known > 1_000/15 {
		t.Errorf("%d of 500 calls are known, want as many as take a quarter of the value", known)
	}
	if a := send(1); a.Flags != rule.Repeated {
		t.Errorf("the first call: got %+v, want it known", a)
	}
	value, _, _ := engine.Get(t.Context(), engine.Names()[0])
	if len(value) > 2_000 {
		t.Errorf("the entry has %d bytes", len(value))
	}
}

// Decoding and encoding an entry a second time changes nothing, and no bytes cause a panic.
func FuzzEntry(f *testing.F) {
	limits := []*store.Limit{
		hourly,
		bind(rule.Limit{Algorithm: rule.TokenBucket, Quota: quota, Burst: quota, Window: 3600e6}),
		bind(rule.Limit{Algorithm: rule.SlidingLog, Quota: quota, Window: 3600e6}),
		bind(rule.Limit{Algorithm: rule.InFlight, Quota: quota, Window: 3600e6}),
		bind(rule.Limit{Quota: quota, Window: 3600e6}),   // a log
		bind(rule.Limit{Quota: 2 * 100, Window: 3600e6}), // in parts
	}
	const now = rule.Micros(1_800_000_000e6)
	for i, limit := range limits {
		engine := &kvtest.Table{}
		s, err := kvstore.New(engine, kvstore.Options{Now: func() rule.Micros { return now }})
		if err != nil {
			f.Fatal(err)
		}
		charges := []store.Charge{{Limit: limit, Key: "key", Cost: 1, At: now}}
		for _, op := range []rule.Op{rule.Take, rule.Settle, rule.Take} {
			if err := s.Apply(context.Background(), []store.Request{{Op: op, ID: 7, Charges: charges, Answers: make([]rule.Answer, 1)}}); err != nil {
				f.Fatal(err)
			}
		}
		value, _, _ := engine.Get(context.Background(), engine.Names()[0])
		f.Add(value, uint8(i))
	}
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, value []byte, which uint8) {
		limit := limits[int(which)%len(limits)].Rule()
		once, err := kvstore.ReencodeForTest(value, limit, now)
		if err != nil {
			return
		}
		twice, err := kvstore.ReencodeForTest(once, limit, now)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q, and then %q, %v", value, once, twice, err)
		}
	})
}
