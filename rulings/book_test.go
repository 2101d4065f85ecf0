package rulings_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/store"
)

// lossyStore is a store that can be down, and lose everything.
type lossyStore struct {
	*memstore.Store
	down    atomic.Bool
	current atomic.Pointer[memstore.Store] // of documents
}

var errDown = errors.New("the store is down")

func newStore(t *testing.T) *lossyStore {
	t.Helper()
	s := &lossyStore{Store: memstore.NewDefault()}
	s.lose()
	return s
}

// lose loses all documents.
func (s *lossyStore) lose() { s.current.Store(memstore.NewDefault()) }

func (s *lossyStore) LoadDocument(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	if s.down.Load() {
		return nil, 0, errDown
	}
	return s.current.Load().LoadDocument(ctx, name, known)
}

func (s *lossyStore) SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error) {
	if s.down.Load() {
		return 0, errDown
	}
	return s.current.Load().SwapDocument(ctx, name, document, revision)
}

// acceptMost follows a book; it accepts every policy but one, and lowercases keys.
func acceptMost(book *rulings.Book, apply func([]rulings.Ruling)) (unfollow func()) {
	return book.Follow(func(all []rulings.Ruling) error { apply(all); return nil }, func(r *rulings.Ruling) (bool, error) {
		r.Key = strings.ToLower(r.Key)
		return r.Policy != "unknown", nil
	})
}

func newBook(t *testing.T, st store.Store) *rulings.Book {
	t.Helper()
	return newLoggedBook(t, st, nil)
}

func newLoggedBook(t *testing.T, st store.Store, log *bytes.Buffer) *rulings.Book {
	t.Helper()
	opts := rulings.Options{}
	if log != nil {
		opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	book, err := rulings.Open(t.Context(), st, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	acceptMost(book, func([]rulings.Ruling) {})
	return book
}

func block(key string) rulings.Ruling {
	return rulings.Ruling{Policy: "p", Key: key, Kind: rulings.Block, Who: "ann", Why: "abuse"}
}

func add(t *testing.T, b *rulings.Book, r rulings.Ruling) {
	t.Helper()
	if _, _, err := b.Add(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func find(b *rulings.Book, key string) *rulings.Ruling {
	all, _ := b.List()
	return ruled.Find(all, "p", key)
}

// age returns how long ago a book was read.
func age(b *rulings.Book) time.Duration {
	_, readAt := b.State()
	return time.Since(readAt)
}

// revision returns the number of changes that a book knows.
func revision(b *rulings.Book) int64 {
	n, _ := b.State()
	return n
}

// reset records that a key was reset.
func reset(t *testing.T, b *rulings.Book, key string) {
	t.Helper()
	if _, _, err := b.Add(t.Context(), rulings.Ruling{Policy: "p", Key: key, Kind: rulings.Reset, Who: "eve"}); err != nil {
		t.Fatal(err)
	}
}

// A change is in force immediately where it is made, and in other processes within a second.
func TestAllProcessesObey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		here, there := newBook(t, st), newBook(t, st)
		var applied atomic.Pointer[[]rulings.Ruling]
		unfollow := acceptMost(there, func(all []rulings.Ruling) { applied.Store(&all) })
		made, before, err := here.Add(t.Context(), block("BOB"))
		if err != nil || before != nil || made.Key != "bob" || find(here, "bob") == nil || find(here, "BOB") != nil {
			t.Fatalf("got %+v, %v, %v, want a new ruling about bob in force immediately", made, before, err)
		}
		testkit.Pass(time.Second)
		if find(there, "bob") == nil || ruled.Find(*applied.Load(), "p", "bob") == nil || revision(there) != revision(here) {
			t.Error("the other process does not obey after a second")
		}
		unfollow()
		if _, before, err = here.Add(t.Context(), rulings.Ruling{Policy: "p", Key: "bob", Kind: rulings.Unlimited, Who: "ann"}); err != nil || before.Kind != rulings.Block {
			t.Errorf("another ruling about bob: got %v, %v; want the block that it replaces", before, err)
		}
		ended, err := there.Remove(t.Context(), rulings.Ruling{Policy: "p", Key: "Bob", Who: "eve", Why: "settled"})
		if err != nil || ended.Kind != rulings.Unlimited || find(there, "bob") != nil {
			t.Errorf("ended elsewhere immediately after: got %v, %v; want the ruling of the other process", ended, err)
		}
		if ruled.Find(*applied.Load(), "p", "bob") == nil {
			t.Error("a follower was called after unfollow")
		}
		reset(t, here, strings.Repeat("K", 2000))
		log, err := there.Log(t.Context(), 10)
		if err != nil || len(log) != 4 || log[0].Kind != rulings.Reset || log[1].Kind != rulings.Clear || log[1].Who != "eve" || log[1].Why != "settled" || log[3].Kind != rulings.Block {
			t.Errorf("the log: got %+v, %v; want four changes, newest first", log, err)
		}
	})
}

// While the store is down, rulings stay in force and cannot be changed, and the outage is logged once, without keys.
func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		st := newStore(t)
		book := newLoggedBook(t, st, &log)
		add(t, book, block("bob"))
		st.down.Store(true)
		testkit.Pass(5 * time.Second)
		if find(book, "bob") == nil || age(book) < 5*time.Second {
			t.Errorf("got %v read %v ago, want the block, read 5s ago", find(book, "bob"), age(book))
		}
		if _, _, err := book.Add(t.Context(), block("eve")); !errors.Is(err, errDown) || find(book, "eve") != nil {
			t.Errorf("a change that is not stored: got %v, want an error and no effect", err)
		}
		if _, err := book.Remove(t.Context(), block("bob")); !errors.Is(err, errDown) {
			t.Errorf("an end that is not stored: got %v, want an error", err)
		}
		st.down.Store(false)
		testkit.Pass(5 * time.Second)
		text := log.String()
		if strings.Count(text, "cannot be read") != 1 || strings.Count(text, "can be read again") != 1 || strings.Contains(text, "bob") ||
			!strings.Contains(text, "key_sha256=81b637d8fcd2c6da") { // printf %s bob | sha256sum
			t.Errorf("got the log\n%s\nwant the beginning and the end of the outage once, and a hash for a key", text)
		}
	})
}

// Rulings that are not read yet are not "no rulings".
func TestNotReadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		st := newStore(t)
		add(t, newBook(t, st), block("bob"))
		st.down.Store(true)
		book := newLoggedBook(t, st, &log)
		if all, err := book.List(); !errors.Is(err, errDown) || revision(book) != 0 {
			t.Errorf("got %v, %v, revision %d; want the error of the store", all, err, revision(book))
		}
		testkit.Pass(10 * time.Second)
		if n := strings.Count(log.String(), "rulings not read"); n != 1 {
			t.Errorf("got %d lines, want one", n)
		}
		st.down.Store(false)
		testkit.Pass(time.Second)
		if all, err := book.List(); err != nil || len(all) != 1 || age(book) > time.Second {
			t.Errorf("got %v, %v, read %v ago; want the block", all, err, age(book))
		}
	})
}

// The changes that any process knows are stored again in a store that has lost everything, whichever process is first.
func TestStoreLosesEverything(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late is ", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStore(t)
				one := newBook(t, st)
				testkit.Pass(300 * time.Millisecond)
				other := newBook(t, st) // reads 300 ms after one
				if late {
					one, other = other, one
				}
				short := block("short")
				short.Until = time.Now().Add(time.Minute)
				add(t, one, short)
				add(t, one, block("old"))
				testkit.Pass(time.Minute)
				add(t, one, block("new")) // other does not know it
				if _, err := one.Remove(t.Context(), block("old")); err != nil {
					t.Fatal(err)
				}
				st.lose()
				testkit.Pass(3 * time.Second)
				for i, book := range []*rulings.Book{one, other, newBook(t, st)} {
					if find(book, "new") == nil || find(book, "old") != nil || find(book, "short") != nil || revision(book) != revision(one) {
						t.Errorf("book %d has revision %d and %+v, want only the new block", i, revision(book), book)
					}
				}
			})
		})
	}
}

// Changes that two processes make while the store loses what the other has stored are both kept.
func TestLostChangesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		one, other := newBook(t, st), newBook(t, st)
		add(t, one, block("both"))
		testkit.Pass(2 * time.Second)
		add(t, one, block("x"))
		st.lose()
		for _, key := range []string{"y", "z"} {
			add(t, other, block(key))
		}
		if _, err := other.Remove(t.Context(), block("both")); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(3 * time.Second)
		for i, book := range []*rulings.Book{one, other} {
			if find(book, "x") == nil || find(book, "y") == nil || find(book, "z") == nil || find(book, "both") != nil {
				all, _ := book.List()
				t.Errorf("book %d: got %+v, want x, y and z", i, all)
			}
		}
		if log, err := one.Log(t.Context(), 100); err != nil || len(log) != 5 {
			t.Errorf("got %+v, %v; want a log of five changes", log, err)
		}
	})
}

// A process that was stopped for long does not bring back what was ended meanwhile.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		one := newBook(t, st)
		stopped := newBook(t, st)
		add(t, one, block("bob"))
		testkit.Pass(2 * time.Second)
		stopped.Close()
		if _, err := one.Remove(t.Context(), block("bob")); err != nil {
			t.Fatal(err)
		}
		for i := range 1001 { // until the log does not have the end of the block
			testkit.Pass(time.Millisecond)
			reset(t, one, fmt.Sprint(i))
		}
		if _, err := stopped.Log(t.Context(), 1); err != nil || find(stopped, "bob") != nil {
			t.Errorf("got %v, %v; want no block", find(stopped, "bob"), err)
		}
		if _, err := one.Log(t.Context(), 1); err != nil || find(one, "bob") != nil {
			t.Errorf("got %v, %v; want no block", find(one, "bob"), err)
		}
	})
}

// No change is lost when several processes make changes concurrently.
func TestConcurrentChanges(t *testing.T) {
	const each = 20
	st := newStore(t)
	var all sync.WaitGroup
	for i := range 3 {
		book := newBook(t, st)
		all.Go(func() {
			for j := range each {
				if _, _, err := book.Add(t.Context(), block(fmt.Sprint(i, "-", j))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if found, err := newBook(t, st).List(); err != nil || len(found) != 3*each {
		t.Errorf("got %d rulings, %v; want %d", len(found), err, 3*each)
	}
}

// Rulings that ended long ago are removed with the next change, and all that have ended if there is no space.
func TestEndedAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := newBook(t, newStore(t))
		kept := 0 // also those that have ended
		acceptMost(book, func(all []rulings.Ruling) { kept = len(all) })
		short := block("short")
		short.Until = time.Now().Add(time.Minute)
		add(t, book, short)
		testkit.Pass(time.Minute)
		if all, err := book.List(); err != nil || len(all) != 0 {
			t.Errorf("got %v, %v; want none after its end", all, err)
		}
		if _, err := book.Remove(t.Context(), short); !errors.Is(err, rulings.ErrNone) {
			t.Errorf("ending an ended ruling: got %v, want ErrNone", err)
		}
		add(t, book, block("a"))
		if kept != 2 {
			t.Errorf("after a minute: got %d kept, want 2", kept)
		}
		testkit.Pass(time.Hour)
		add(t, book, block("b"))
		if kept != 2 {
			t.Errorf("after an hour: got %d kept, want 2", kept)
		}
	})
}

// compress returns the bytes of a document.
func compress(t *testing.T, document map[string]any) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(w).Encode(document), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// When there is no space left, a ruling can still be ended and replaced, and one that has ended makes space.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		large := func() rulings.Ruling {
			text := make([]byte, 1500)
			for i := range text {
				text[i] = byte('a' + random.IntN(26))
			}
			r := block(string(text[:1000]))
			r.Why = string(text[1000:])
			return r
		}
		var all []rulings.Ruling
		for range 1000 {
			all = append(all, large())
		}
		all[0].Until = time.Now().Add(time.Minute)
		document := func(n int) []byte {
			return compress(t, map[string]any{"format": 1, "revision": 1, "rulings": all[:n]})
		}
		n := (store.MaxDocument - 4000) * 500 / len(document(500))
		st := newStore(t)
		if _, err := st.SwapDocument(t.Context(), "rulings", document(n), 0); err != nil {
			t.Fatal(err)
		}
		book := newBook(t, st)
		for i := 0; ; i++ {
			r := large()
			_, _, err := book.Add(t.Context(), r)
			if errors.Is(err, rulings.ErrFull) {
				break
			}
			if err != nil || i == 10 {
				t.Fatalf("addition %d of about 2: got %v, want ErrFull", i, err)
			}
		}
		if _, _, err := book.Add(t.Context(), block(all[1].Key)); err != nil {
			t.Errorf("replacing one by a shorter one: %v", err)
		}
		if _, err := book.Remove(t.Context(), block(all[2].Key)); err != nil {
			t.Errorf("ending one: %v", err)
		}
		for _, _, err := book.Add(t.Context(), large()); err == nil; {
			_, _, err = book.Add(t.Context(), large())
		}
		testkit.Pass(time.Minute)
		add(t, book, large()) // in place of the one that has ended
	})
}

// A document of another format is neither read nor replaced, and the error of a newer one names its format and the fix.
func TestOtherFormats(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"damaged": {[]byte("x"), "is damaged"},
		"newer":   {compress(t, map[string]any{"format": 2}), `has the format 2, but this program reads 1; upgrade this program`},
	} {
		st := newStore(t)
		if _, err := st.SwapDocument(t.Context(), "rulings", c.text, 0); err != nil {
			t.Fatal(err)
		}
		book := newBook(t, st)
		if _, err := book.List(); err == nil || !strings.Contains(err.Error(), "not read") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says that it %s", name, err, c.want)
		}
		if _, _, err := book.Add(t.Context(), block("bob")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: adding a ruling: got %v, want an error that says that it %s", name, err, c.want)
		}
		if text, _, err := st.LoadDocument(t.Context(), "rulings", 0); !bytes.Equal(text, c.text) {
			t.Errorf("%s: the document was replaced by %q, %v", name, text, err)
		}
	}
}

func TestRefusesStoreWithoutDocuments(t *testing.T) {
	var plain struct{ store.Store }
	if _, err := rulings.Open(t.Context(), plain, rulings.Options{}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func TestBadChanges(t *testing.T) {
	book := newBook(t, newStore(t))
	past := time.Now().Add(-time.Second)
	for name, test := range map[string]struct {
		field  string
		change func(*rulings.Ruling)
	}{
		"a long key":        {"key", func(r *rulings.Ruling) { r.Key = strings.Repeat("k", 1025) }},
		"not UTF-8":         {"key", func(r *rulings.Ruling) { r.Key = "\xff" }},
		"no name":           {"who", func(r *rulings.Ruling) { r.Who = "" }},
		"a long name":       {"who", func(r *rulings.Ruling) { r.Who = strings.Repeat("w", 129) }},
		"two lines":         {"why", func(r *rulings.Ruling) { r.Why = "a\nb" }},
		"a long reason":     {"why", func(r *rulings.Ruling) { r.Why = strings.Repeat("w", 513) }},
		"no kind":           {"kind", func(r *rulings.Ruling) { r.Kind = "" }},
		"an unknown kind":   {"kind", func(r *rulings.Ruling) { r.Kind = rulings.Clear }},
		"no limits":         {"limits", func(r *rulings.Ruling) { r.Kind = rulings.Limits }},
		"limits, blocked":   {"limits", func(r *rulings.Ruling) { r.Limits = []string{"1/1s"} }},
		"nine limits":       {"limits", func(r *rulings.Ruling) { r.Kind, r.Limits = rulings.Limits, make([]string, 9) }},
		"the past":          {"until", func(r *rulings.Ruling) { r.Until = past }},
		"too far":           {"until", func(r *rulings.Ruling) { r.Until = past.AddDate(101, 0, 0) }},
		"an unknown policy": {"policy", func(r *rulings.Ruling) { r.Policy = "unknown" }},
	} {
		r := block("bob")
		test.change(&r)
		var wrong *rulings.FieldError
		if _, _, err := book.Add(t.Context(), r); !errors.As(err, &wrong) || wrong.Field != test.field {
			t.Errorf("%s: got %v, want an error of the field %s", name, err, test.field)
		}
	}
	if _, _, err := book.Add(t.Context(), block("bob")); err != nil {
		t.Fatal(err)
	}
	var wrong *rulings.FieldError
	if _, err := book.Remove(t.Context(), block("bob"), rulings.Limits, rulings.Unlimited); !errors.As(err, &wrong) || wrong.Field != "kind" || find(book, "bob") == nil {
		t.Errorf("ending a block as limits: got %v, want an error of the field kind", err)
	}
	if _, err := book.Remove(t.Context(), block("eve")); !errors.Is(err, rulings.ErrNone) {
		t.Errorf("ending a missing ruling: got %v, want ErrNone", err)
	}
}

// A ruling must mean the same to all followers of its policy: none may be unable to apply it, and each must find it under its key.
func TestFollowersOfOnePolicy(t *testing.T) {
	follow := func(book *rulings.Book, form keyform.Form) {
		set, err := engine.NewOver(memstore.NewDefault(), []engine.Spec{{Name: "p", Form: form, Limits: []slidegate.Limit{slidegate.MustParseLimit("2/1h")}}}, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ruled.Follow(book, set)
	}
	long, short := keyform.Address(clientip.Grouping{}), keyform.Address(clientip.Grouping{V6: 56})
	for _, c := range []struct {
		first, second keyform.Form
		key, want     string // the error; "" if there is none
	}{
		{keyform.Text, long, "alice", "must be an address"},
		{long, keyform.Text, "alice", "must be an address"},
		{long, keyform.Text, "192.0.2.7", ""},
		{long, short, "2001:db8::/64", "write 2001:db8::/56"},
		{long, short, "2001:db8::/32", ""},
		{keyform.Text, keyform.Secret, "s3cret", "policy.HashSecret"},
		{keyform.Secret, keyform.Secret, policy.HashSecret("s3cret"), ""},
	} {
		book, err := rulings.Open(t.Context(), memstore.NewDefault(), rulings.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(book.Close)
		follow(book, c.first)
		follow(book, c.second)
		_, _, err = book.Add(t.Context(), block(c.key))
		field := &rulings.FieldError{}
		switch {
		case c.want == "" && err == nil:
			if _, err := book.Remove(t.Context(), block(c.key)); err != nil {
				t.Errorf("%q: got %v, want it to end", c.key, err)
			}
		case c.want == "" || !errors.As(err, &field) || field.Field != "key" || !strings.Contains(err.Error(), c.want):
			t.Errorf("%q: got %v, want an error about the key with %q", c.key, err, c.want)
		}
	}
}
