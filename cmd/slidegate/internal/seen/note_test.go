package seen

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/slidegate/slidegate/store"
)

// someNote returns a note of this many policies and keys, whose texts do not compress.
func someNote(policies, keys int, now int64) *note {
	n := &note{Instance: Instance{ID: "abc", Name: "host:1", RestartNeeded: []string{"store"}}, Turn: 7}
	for i := range policies {
		p := notePolicy{Name: fmt.Sprint("policy", i), Limits: []string{"100/1m"}}
		for at := now - 59; at <= now; at++ {
			p.Minutes = append(p.Minutes, noteMinute{at, rand.Int64N(1e6), rand.Int64N(1e6), 0, 0})
		}
		n.Policies = append(n.Policies, p)
	}
	for i := range keys {
		n.Keys = append(n.Keys, noteKey{
			Policy: i % policies, ID: idOf([]byte("s"), "p", fmt.Sprint(i)), Masked: "an…4", By: ByLimits, Share: 0.5, Last: now * 60, Limit: "100/1m",
			Counts: [3]Pair{{1, rand.Int64N(1e9)}, {1, rand.Int64N(1e9)}, {1, rand.Int64N(1e9)}}, Routes: []string{fmt.Sprint("GET /", rand.Uint64())},
		})
	}
	return n
}

// TestNoteComesBack: what fits into a note is read as it was written.
func TestNoteComesBack(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := someNote(3, 100, minuteOf(now))
	n.Instance.Started = now.UTC()
	text, err := encodeNote(n)
	if err != nil || len(text) > store.MaxNote {
		t.Fatalf("got %d bytes, %v", len(text), err)
	}
	got, err := decodeNote("abc", text, now)
	if err != nil || !reflect.DeepEqual(got, n) {
		t.Errorf("got %+v, %v, want %+v", got, err, n)
	}
}

// TestNoteThatIsTooLargeIsCut: it keeps its first keys, and says that there are more; the hour takes several notes.
func TestNoteThatIsTooLargeIsCut(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := someNote(10, 1500, minuteOf(now))
	text, err := encodeNote(n)
	if err != nil || len(text) > store.MaxNote {
		t.Fatalf("got %d bytes, %v", len(text), err)
	}
	got, err := decodeNote("abc", text, now)
	if err != nil || !got.Cut || len(got.Keys) < 100 || got.Keys[0].ID != n.Keys[0].ID {
		t.Errorf("got %v, %v, cut %v, want the first keys", len(got.Keys), err, got.Cut)
	}
	all := someNote(300, 0, minuteOf(now))
	s := &source{}
	texts := encodeHour(all)
	for _, text := range texts {
		if len(text) > store.MaxNote {
			t.Errorf("got a note of %d bytes", len(text))
		}
		got, err := decodeNote("abc-1", text, now)
		if err != nil {
			t.Fatal(err)
		}
		s.keep(got, minuteOf(now))
	}
	if len(texts) < 2 || len(s.minutes) != 300 || len(s.minutes["policy299"]) != 60 {
		t.Errorf("got %d notes with %d policies, want several with 300", len(texts), len(s.minutes))
	}
}

// deflate compresses what an attacker writes.
func deflate(text []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes()
}

// TestHostileNotesAreRejected: notes that no instance writes are rejected or made harmless, and take little memory.
func TestHostileNotesAreRejected(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	good := func(change func(*note)) []byte {
		n := someNote(1, 1, minuteOf(now))
		change(n)
		text, _ := json.Marshal(n)
		return deflate(text)
	}
	for name, text := range map[string][]byte{
		"a bomb":          deflate(bytes.Repeat([]byte(" "), 30<<20)),
		"not compressed":  []byte("{}"),
		"not JSON":        deflate([]byte("{")),
		"too long":        bytes.Repeat([]byte{1}, store.MaxNote+1),
		"an empty forest": deflate([]byte(`{"k":[` + strings.Repeat("{},", maxNoteText/3-10) + `{}]}`)),
		"empty policies":  deflate([]byte(`{"p":[` + strings.Repeat("{},", maxNoteText/3-10) + `{}]}`)),
		"too much text":   deflate([]byte(`{"i":{"name":"` + strings.Repeat("x", maxNoteText) + `"}}`)),
		"many causes":     good(func(n *note) { n.Keys[0].Causes = make([]noteCause, maxCauses+2) }),
		"negative causes": good(func(n *note) { n.Keys[0].Causes = []noteCause{{Refused: [3]int64{0, -1, 0}}} }),
		"many keys":       good(func(n *note) { n.Keys = make([]noteKey, maxNoteKeys+1) }),
		"a strange ID":    good(func(n *note) { n.Keys[0].ID = "<script>" }),
		"no such policy":  good(func(n *note) { n.Keys[0].Policy = 1 }),
		"policy -1":       good(func(n *note) { n.Keys[0].Policy = -1 }),
		"negative counts": good(func(n *note) { n.Keys[0].Counts[1][0] = -1 }),
		"huge counts":     good(func(n *note) { n.Policies[0].Minutes[0][1] = math.MaxInt64 }),
		"a strange share": good(func(n *note) { n.Keys[0].Share = 2 }),
		"many minutes":    good(func(n *note) { n.Policies[0].Minutes = make([]noteMinute, 1000) }),
		"a late time":     good(func(n *note) { n.Keys[0].Last = math.MaxInt64 }),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := decodeNote("abc", text, now); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 16*maxNoteText {
			t.Errorf("%s: took %d bytes", name, after.TotalAlloc-before.TotalAlloc)
		}
	}
	evil := "\x1b[2J\u202e<b>\x00" + strings.Repeat("x", 5000)
	n, err := decodeNote("abc", good(func(n *note) {
		n.Instance = Instance{Name: evil, Version: evil, Config: evil, Health: evil, Store: evil, RestartNeeded: []string{evil}, LeasesOut: -5, Started: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(-3000, 0, 0)}
		n.Policies[0].Name, n.Policies[0].Limits = evil, []string{evil}
		n.Policies[0].Minutes = append(n.Policies[0].Minutes, noteMinute{5, 1, 1, 1, 1})
		n.Keys[0].By = evil
		n.Keys[0].Masked, n.Keys[0].Limit, n.Keys[0].Near, n.Keys[0].Routes = evil, evil, evil, []string{evil, evil, evil, evil, evil, evil}
	}), now)
	if err != nil {
		t.Fatal(err)
	}
	d := merge([]*source{{note: n, seen: now}}, now, 10)
	text, err := json.Marshal(d)
	if err != nil || len(text) > 10_000 || strings.ContainsFunc(string(text), func(r rune) bool { return !unicode.IsPrint(r) }) || d.Instances[0].LeasesOut != 0 || len(n.Policies[0].Minutes) != 60 {
		t.Errorf("got %d bytes, %v: %.300s", len(text), err, text)
	}
}

// FuzzDecodeNote: whatever is read makes a document that can be shown.
func FuzzDecodeNote(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	plain, _ := json.Marshal(someNote(2, 3, minuteOf(now)))
	f.Add(plain)
	f.Fuzz(func(t *testing.T, plain []byte) {
		n, err := decodeNote("abc", deflate(plain), now)
		if err != nil {
			return
		}
		s := &source{note: n, seen: now}
		s.keep(n, minuteOf(now))
		if text, err := json.Marshal(merge([]*source{s}, now, 10)); err != nil {
			t.Errorf("got %v for %s", err, text)
		}
	})
}
