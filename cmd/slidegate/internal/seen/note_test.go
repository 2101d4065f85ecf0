package seen

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// someNote returns a note of this many policies and keys, whose texts do not compress.
func someNote(policies, keys int, now int64) *note {
	n := &note{Instance: Instance{ID: "abc", Name: "host:1", RestartNeeded: []string{"store"}}}
	for i := range policies {
		p := notePolicy{Name: fmt.Sprint("policy", i), Limits: []string{"100/1m"}}
		for at := now - 59; at <= now; at++ {
			p.Minutes = append(p.Minutes, noteMinute{at, rand.Int64N(1e6), rand.Int64N(1e6), 0, 0})
		}
		n.Policies = append(n.Policies, p)
	}
	for i := range keys {
		n.Keys = append(n.Keys, noteKey{
			Policy: i % policies, Key: fmt.Append(nil, i, "\xff", rand.Uint64()), Share: 0.5, Last: now * 60, Causes: []noteCause{{By: ByLimits, Limit: "100/1m"}},
			Counts: [3]Pair{{1, rand.Int64N(1e9)}, {1, rand.Int64N(1e9)}, {1, rand.Int64N(1e9)}}, Routes: []string{fmt.Sprint("GET /", rand.Uint64())},
		})
	}
	return n
}

// TestNoteComesBack: what fits into a document is read as it was written, and only by those who have the secret, as that of its instance.
func TestNoteComesBack(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := someNote(3, 100, minuteOf(now))
	n.Instance.Started = now.UTC()
	text := encodeNote(n, testSecret)
	if got, err := decodeNote("abc", text, testSecret); err != nil || !reflect.DeepEqual(got, n) {
		t.Errorf("got %+v, %v, want %+v", got, err, n)
	}
	changed := bytes.Clone(text)
	changed[len(changed)/2] ^= 1
	for name, read := range map[string]func() (*note, error){
		"another secret":   func() (*note, error) { return decodeNote("abc", text, bytes.ToUpper(testSecret)) },
		"another instance": func() (*note, error) { return decodeNote("abd", text, testSecret) },
		"a changed byte":   func() (*note, error) { return decodeNote("abc", changed, testSecret) },
		"nothing":          func() (*note, error) { return decodeNote("abc", nothing, testSecret) },
	} {
		if _, err := read(); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestNoteThatIsTooLargeIsCut: it keeps its first keys and says that there are more; then its last minutes, and then its first policies.
func TestNoteThatIsTooLargeIsCut(t *testing.T) {
	now := int64(30_000_000)
	for _, test := range []struct{ policies, keys, leastPolicies, leastMinutes, leastKeys int }{{10, 1900, 10, 60, 300}, {700, 100, 700, 7, 0}, {1900, 0, 1900, 1, 0}} {
		n := someNote(test.policies, test.keys, now)
		for i := range n.Keys {
			n.Keys[i].Key = append(n.Keys[i].Key, strings.Repeat("k", 500)...)
		}
		text := encodeNote(n, testSecret)
		if len(text) > maxSealed {
			t.Errorf("got %d bytes", len(text))
		}
		got, err := decodeNote("abc", text, testSecret)
		if err != nil || got.Cut != (test.keys > 0) || len(got.Keys) < test.leastKeys || len(got.Policies) < test.leastPolicies {
			t.Fatalf("got %d keys, %d policies, cut %v, %v", len(got.Keys), len(got.Policies), got.Cut, err)
		}
		if m := got.Policies[0].Minutes; len(m) < test.leastMinutes || m[len(m)-1][0] != now || len(got.Keys) > 0 && !bytes.Equal(got.Keys[0].Key, n.Keys[0].Key) {
			t.Errorf("got %d minutes and %d keys, want the last minutes and the first keys", len(m), len(got.Keys))
		}
	}
	long := &note{}
	for range 1000 {
		long.Policies = append(long.Policies, notePolicy{Name: strings.Repeat("x", 5000)})
	}
	if got, err := decodeNote("", encodeNote(long, testSecret), testSecret); err != nil || len(got.Policies) == 0 {
		t.Errorf("got %v, %v, want some policies", got, err)
	}
}

// seal compresses and seals what one writes who has the secret.
func seal(text []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write(text)
	_ = w.Close()
	return sealer(testSecret).Seal(nil, nil, b.Bytes(), []byte("abc"))
}

// TestHostileDocumentsAreRejected: documents that no instance writes are rejected, and take little memory, even if their author has the secret.
func TestHostileDocumentsAreRejected(t *testing.T) {
	good := func(change func(*note)) []byte {
		n := someNote(1, 1, 30_000_000)
		change(n)
		text, _ := json.Marshal(n)
		return seal(text)
	}
	if _, err := decodeNote("abc", good(func(*note) {}), testSecret); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"a bomb":          seal(bytes.Repeat([]byte(" "), 30<<20)),
		"not compressed":  sealer(testSecret).Seal(nil, nil, []byte("{}"), []byte("abc")),
		"not JSON":        seal([]byte("{")),
		"too long":        bytes.Repeat([]byte{1}, maxSealed+1),
		"an empty forest": seal([]byte(`{"k":[` + strings.Repeat("{},", maxPlain/3-10) + `{}]}`)),
		"empty policies":  seal([]byte(`{"p":[` + strings.Repeat("{},", maxPlain/3-10) + `{}]}`)),
		"too much text":   seal([]byte(`{"i":{"name":"` + strings.Repeat("x", maxPlain) + `"}}`)),
		"another ID":      good(func(n *note) { n.Instance.ID = "x" }),
		"a long key":      good(func(n *note) { n.Keys[0].Key = make([]byte, maxKey+2) }),
		"no such policy":  good(func(n *note) { n.Keys[0].Policy = 1 }),
		"policy -1":       good(func(n *note) { n.Keys[0].Policy = -1 }),
		"a late time":     good(func(n *note) { n.Keys[0].Last = maxLast + 1 }),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := decodeNote("abc", text, testSecret); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 16*maxPlain {
			t.Errorf("%s: took %d bytes", name, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

// FuzzDecodeNote: whatever is read makes a document that can be shown.
func FuzzDecodeNote(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	plain, _ := json.Marshal(someNote(2, 3, minuteOf(now)))
	f.Add(plain)
	f.Fuzz(func(t *testing.T, plain []byte) {
		n, err := decodeNote("abc", seal(plain), testSecret)
		if err != nil {
			return
		}
		if text, err := json.Marshal(merge([]source{{note: n, seen: now}}, testSecret, now, 10)); err != nil {
			t.Errorf("got %v for %s", err, text)
		}
	})
}
