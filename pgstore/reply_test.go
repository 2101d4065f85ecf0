package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func TestReadText(t *testing.T) {
	for text, want := range map[string][]int64{
		"{}": {}, "{7}": {7}, "{1,-2,9223372036854775807}": {1, -2, 9223372036854775807}, "{{1,2},{3,4}}": {1, 2, 3, 4},
	} {
		if got, ok := readText([]byte(text), nil); !ok || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "{", "}", "1", "{1", "1}", "{NULL}", "{1,a}", "{9223372036854775808}", "{1.5}", "{ 1}"} {
		if got, ok := readText([]byte(text), nil); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// packed returns an array in PostgreSQL's binary format: words of 4 bytes, of which a number takes two.
func packed(words ...uint32) (raw []byte) {
	for _, w := range words {
		raw = binary.BigEndian.AppendUint32(raw, w)
	}
	return raw
}

func TestReadBinary(t *testing.T) {
	for _, c := range []struct {
		raw  []byte
		want []int64
	}{
		{packed(0, 0, 20), nil},
		{packed(1, 0, 20, 1, 1, 8, 0, 7), []int64{7}},
		{packed(1, 0, 20, 2, 1, 8, 1, 0, 8, 0xffffffff, 0xffffffff), []int64{1 << 32, -1}},
		{packed(2, 0, 20, 1, 1, 2, 1, 8, 0, 3, 8, 0, 4), []int64{3, 4}},
	} {
		if got, ok := readBinary(c.raw, nil); !ok || !slices.Equal(got, c.want) {
			t.Errorf("%x: got %v, %v", c.raw, got, ok)
		}
	}
	for i, raw := range [][]byte{
		nil, packed(1), packed(0, 0, 20, 0), packed(0, 0, 23), packed(1, 0, 20), packed(1, 0, 20, 1, 1), packed(1, 0, 20, 2, 1, 8, 0, 7),
		packed(1, 0, 20, 1, 1, 4, 0, 7), packed(1, 0, 23, 1, 1, 8, 0, 7), packed(3, 0, 20, 1, 1, 1, 1, 1, 1, 8, 0, 7),
		packed(1, 1, 20, 1, 1, 0xffffffff, 0, 0), packed(2, 0, 20, 1, 1), packed(1, 0, 20, 1, 1, 8, 0, 7)[:31],
	} {
		if got, ok := readBinary(raw, nil); ok {
			t.Errorf("invalid array %d: got %v", i, got)
		}
	}
}

// scripted is a DB with scripted replies.
type scripted struct {
	DB
	reply []int64
	err   error
	calls int
}

func (s *scripted) Query(context.Context, string, ...any) (pgx.Rows, error) {
	s.calls++
	return arrayRow{array: s.reply}, s.err
}

// arrayRow is one row with an array of numbers.
type arrayRow struct {
	pgx.Rows
	array []int64
}

func (r arrayRow) Next() bool { return true }
func (r arrayRow) Close()     {}
func (r arrayRow) Err() error { return nil }

func (r arrayRow) FieldDescriptions() []pgconn.FieldDescription {
	return []pgconn.FieldDescription{{Format: pgx.BinaryFormatCode}}
}

func (r arrayRow) RawValues() [][]byte {
	raw := packed(1, 0, 20, uint32(len(r.array)), 1)
	for _, n := range r.array {
		raw = append(raw, packed(8, uint32(n>>32), uint32(n))...)
	}
	return [][]byte{raw}
}

// Functions of another version cause an error that names the reason, never a wrong answer or a panic.
func FuzzReply(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5}, byte(0), []byte(packed(1, 0, 20, 1, 1, 8, 0, 7)))
	f.Add([]byte{1, 1, 1, 1, 1, 3, 1, 2, 3}, byte(3), []byte("{{1,2}}"))
	f.Add([]byte{}, byte(5), []byte{})
	f.Add([]byte{1, 1, 1, 1, 1, 4, 1, 0xff, 0xff, 3}, byte(5), []byte{})
	f.Add([]byte{1, 0, 1, 1, 1, 4, 1, 127, 127, 127}, byte(5), []byte{})
	f.Add([]byte{1, 1, 1, 1, 1, 2, 1, 0xff}, byte(5), []byte{})
	f.Add([]byte{0xff, 7}, byte(3), []byte{})
	f.Add([]byte{9, 2, 1, 1, 1, 1}, byte(1), []byte{})
	f.Add([]byte{9, 2, 1, 1, 1, 9, 1, 1, 1, 1, 1, 1, 1}, byte(1), []byte{})
	f.Add([]byte{9, 3, 0xff, 0xff, 0xff, 0xff}, byte(5), []byte{})
	f.Add([]byte{9, 0, 9, 9, 9, 9}, byte(3), []byte{})
	f.Fuzz(func(t *testing.T, numbers []byte, kind byte, raw []byte) {
		readBinary(raw, nil)
		readText(raw, nil)
		var reply []int64
		for _, n := range numbers {
			reply = append(reply, int64(int8(n)))
		}
		s, err := newStore(&scripted{reply: reply}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		limit := kinds()[int(kind)%len(kinds())]
		request := store.Request{Charges: []store.Charge{{Limit: bind(t, "", limit), Cost: 1}}, Answers: make([]rule.Answer, 1)}
		err = s.Apply(context.Background(), []store.Request{request})
		if (limit.Name == "window" || limit.Name == "fixed") && (err == nil) != (len(reply) == takeReplies) {
			t.Errorf("a reply of %d numbers: %v", len(reply), err)
		}
		if err != nil && !errors.Is(err, errReply) && !errors.Is(err, errOutside) {
			t.Errorf("got error %v", err)
		}
	})
}

// A function that admits what the rule refuses by the same state, or the reverse, is of another version.
func TestDisagreementWithTheRuleIsAnError(t *testing.T) {
	limits := map[string]slidegate.Limit{}
	for _, limit := range kinds() {
		limits[limit.Name] = limit
	}
	const now, start = 7_200_000_000, 7_100_000_000
	for name, replies := range map[string]struct{ right, wrong []int64 }{
		"parts": {
			[]int64{now, 0, start, start, 4, 10, 6*128 + 8, 4*128 + 11},
			[]int64{now, 8, start, start, 4, 10, 6*128 + 8, 4*128 + 11},
		},
		"bucket": {[]int64{now, 8, now, 6, 0, now + 1}, []int64{now, 8, now, 7, 0, now + 1}},
	} {
		for i, reply := range [][]int64{replies.right, replies.wrong, replies.right[:fastReplies-1]} {
			s, err := newStore(&scripted{reply: reply}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			request := store.Request{Charges: []store.Charge{{Limit: bind(t, "", limits[name]), Cost: 1}}, Answers: make([]rule.Answer, 1)}
			if err = s.Apply(t.Context(), []store.Request{request}); errors.Is(err, errReply) != (i > 0) || (err == nil) != (i == 0) {
				t.Errorf("%s, reply %d: got error %v", name, i, err)
			}
		}
	}
}

// kinds returns limits of every format of state.
func kinds() []slidegate.Limit {
	return []slidegate.Limit{
		{Name: "window", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingWindow},
		{Name: "parts", Quota: 10, Window: time.Hour, Segments: 6, Anchor: slidegate.AnchorFirst, Overlap: slidegate.OverlapWhole},
		{Name: "fixed", Quota: 10, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
		{Name: "log", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingLog},
		{Name: "long-log", Quota: 1_000, Window: time.Hour, Algorithm: slidegate.SlidingLog},
		{Name: "bucket", Quota: 11, Window: time.Hour, Burst: 7, Algorithm: slidegate.TokenBucket},
		{Name: "slots", Quota: 10, Window: time.Hour, Algorithm: rule.InFlight},
	}
}

// A call that the server has certainly rolled back is tried again a few times, any other is not.
func TestRolledBackCallsAreRetried(t *testing.T) {
	for code, calls := range map[string]int{serializationFailure: maxTries, deadlockDetected: maxTries, "57014": 1, "53100": 1, "": 1} {
		db := &scripted{err: &pgconn.PgError{Code: code}}
		s, err := newStore(db, Options{})
		if err != nil {
			t.Fatal(err)
		}
		request := store.Request{Charges: []store.Charge{{Limit: bind(t, "", kinds()[0]), Cost: 1}}, Answers: make([]rule.Answer, 1)}
		err = s.Apply(t.Context(), []store.Request{request})
		if !errors.Is(err, db.err) || !strings.HasPrefix(err.Error(), "pgstore: "+fixes[code]) || db.calls != calls {
			t.Errorf("%s: got %d calls, %v", code, db.calls, err)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for _, test := range []struct {
		opts Options
		want string
	}{
		{Options{Schema: `a"b`}, "schema"}, {Options{Schema: "a b"}, "schema"}, {Options{Schema: "a'b"}, "schema"},
		{Options{Schema: strings.Repeat("x", 64)}, "schema"}, {Options{Schema: "{prefix}"}, "schema"}, {Options{Schema: "$migration$"}, "schema"},
		{Options{Prefix: "A"}, "prefix"}, {Options{Prefix: "a-b"}, "prefix"}, {Options{Prefix: "1a"}, "prefix"},
		{Options{Prefix: strings.Repeat("x", 41)}, "prefix"},
		{Options{Grace: -time.Second}, "grace"}, {Options{SynchronousCommit: "local"}, "synchronous commit"},
	} {
		if _, err := newStore(&scripted{}, test.opts); err == nil || !strings.HasPrefix(err.Error(), "pgstore: "+test.want+": ") {
			t.Errorf("%+v: got error %v", test.opts, err)
		}
		if _, _, err := Schema(test.opts); err == nil {
			t.Errorf("%+v: got a schema", test.opts)
		}
	}
	for i, err := range []error{
		errOf(New(nil, Options{})), errOf(New((*pgxpool.Pool)(nil), Options{})),
		Migrate(t.Context(), nil, Options{}),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "pgstore: ") {
			t.Errorf("without a connection, %d: got %v", i, err)
		}
	}
}

func errOf(_ *Store, err error) error { return err }
