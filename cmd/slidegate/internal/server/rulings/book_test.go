package rulings_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/internal/testkit"
)

// failingKeeper is a keeper that can be made to fail.
type failingKeeper struct {
	rulings.Keeper
	down, downToRead atomic.Bool
	empty            atomic.Pointer[rulings.Keeper] // replaces Keeper once set
}

var errDown = errors.New("the store is down")

func (f *failingKeeper) Load(ctx context.Context, known int64) ([]rulings.Ruling, int64, error) {
	if f.down.Load() || f.downToRead.Load() {
		return nil, 0, errDown
	}
	return f.keeper().Load(ctx, known)
}

func (f *failingKeeper) Apply(ctx context.Context, change rulings.Ruling, stale []rulings.Ruling) error {
	if f.down.Load() {
		return errDown
	}
	return f.keeper().Apply(ctx, change, stale)
}

func (f *failingKeeper) keeper() rulings.Keeper {
	if empty := f.empty.Load(); empty != nil {
		return *empty
	}
	return f.Keeper
}

// acceptMost is a Resolve that accepts every policy but one, and lowercases keys.
func acceptMost(r *rulings.Ruling) error {
	if r.Policy == "unknown" {
		return &rulings.FieldError{Field: "policy", Err: errors.New("no such policy")}
	}
	r.Key = strings.ToLower(r.Key)
	return nil
}

func newBook(t *testing.T, keeper rulings.Keeper, opts rulings.Options) *rulings.Book {
	t.Helper()
	opts.Resolve = acceptMost
	book, err := rulings.New(keeper, opts)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// run runs a book until the test ends.
func run(t *testing.T, book *rulings.Book) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { book.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

func block(key string) rulings.Ruling {
	return rulings.Ruling{Policy: "p", Key: key, Kind: rulings.Block, Who: "ann", Why: "abuse"}
}

func find(b *rulings.Book, key string) *rulings.Ruling { return b.Table().Find("p", key, time.Now()) }

// A change is in force immediately where it is made, and at other instances within a second.
func TestAllInstancesObey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := rulings.InMemory()
		var put atomic.Pointer[rulings.Table]
		here, there := newBook(t, keeper, rulings.Options{}), newBook(t, keeper, rulings.Options{OnChange: func(table *rulings.Table) { put.Store(table) }})
		run(t, there)
		made, before, err := here.Change(t.Context(), block("BOB"))
		if err != nil || before != nil || made.Key != "bob" || find(here, "bob") == nil || find(here, "BOB") != nil {
			t.Fatalf("got %+v, %v, %v, want a new ruling about bob in force immediately", made, before, err)
		}
		testkit.Pass(time.Second)
		if find(there, "bob") == nil || put.Load().Find("p", "bob", time.Now()) == nil {
			t.Error("the other instance does not obey after a second")
		}
		if _, before, err = here.Change(t.Context(), rulings.Ruling{Policy: "p", Key: "bob", Kind: rulings.Unlimited, Who: "ann"}); err != nil || before.Kind != rulings.Block {
			t.Errorf("another ruling about bob: got %v, %v; want the block that it replaces", before, err)
		}
		ended, err := there.End(t.Context(), rulings.Ruling{Policy: "p", Key: "Bob", Who: "eve", Why: "settled"}, "")
		if err != nil || ended.Kind != rulings.Unlimited || find(there, "bob") != nil {
			t.Errorf("ended elsewhere immediately after: got %v, %v; want the ruling of the other instance", ended, err)
		}
		testkit.Pass(time.Second)
		log, err := here.Log(t.Context(), 10)
		if err != nil || len(log) != 3 || log[0].Kind != rulings.Clear || log[0].Who != "eve" || log[0].Why != "settled" || log[2].Kind != rulings.Block {
			t.Errorf("the log: got %+v, %v; want three changes, newest first", log, err)
		}
	})
}

// While the store is down, rulings stay in force and cannot be changed, and the outage is logged once.
func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		keeper := &failingKeeper{Keeper: rulings.InMemory()}
		book := newBook(t, keeper, rulings.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if _, _, err := book.Change(t.Context(), block("bob")); err != nil {
			t.Fatal(err)
		}
		run(t, book)
		keeper.down.Store(true)
		testkit.Pass(5 * time.Second)
		if find(book, "bob") == nil {
			t.Error("a block ended because the store was down")
		}
		if _, _, err := book.Change(t.Context(), block("eve")); !errors.Is(err, errDown) || find(book, "eve") != nil {
			t.Errorf("a change that is not stored: got %v, want an error and no effect", err)
		}
		if _, err := book.End(t.Context(), block("bob"), ""); !errors.Is(err, errDown) {
			t.Errorf("an end that is not stored: got %v, want an error", err)
		}
		keeper.down.Store(false)
		keeper.downToRead.Store(true)
		if _, _, err := book.Change(t.Context(), block("eve")); err != nil || find(book, "eve") == nil || find(book, "bob") == nil {
			t.Errorf("a change that is stored and cannot be read: got %v, want it in force", err)
		}
		keeper.downToRead.Store(false)
		testkit.Pass(5 * time.Second)
		if find(book, "eve") == nil {
			t.Error("a ruling was lost after an outage")
		}
		text := log.String()
		if strings.Count(text, "cannot be read") != 1 || strings.Count(text, "can be read again") != 1 || strings.Contains(text, "bob") {
			t.Errorf("got the log\n%s\nwant the beginning and the end of the outage once, and no key", text)
		}
	})
}

// The rulings in force are restored to a store that has lost everything.
func TestStoreLosesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &failingKeeper{Keeper: rulings.InMemory()}
		book, other := newBook(t, keeper, rulings.Options{}), newBook(t, keeper, rulings.Options{})
		short := block("short")
		short.Until = time.Now().Add(time.Minute)
		for _, r := range []rulings.Ruling{block("bob"), short} {
			if _, _, err := book.Change(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		run(t, book)
		run(t, other)
		testkit.Pass(time.Minute)
		keeper.empty.Store(new(rulings.InMemory()))
		testkit.Pass(2 * time.Second)
		all, _, _ := keeper.Load(t.Context(), -1)
		if len(all) != 1 || all[0].Key != "bob" || all[0].Who != "ann" || find(book, "bob") == nil || find(other, "bob") == nil {
			t.Errorf("got %+v, want the block that was in force, in both books", all)
		}
		if _, err := book.End(t.Context(), block("bob"), ""); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(2 * time.Second)
		if find(book, "bob") != nil || find(other, "bob") != nil {
			t.Error("an ended ruling came back")
		}
	})
}

// Rulings that ended long ago are removed with the next change, and all that have ended if the store is full.
func TestEndedAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := rulings.InMemory()
		book := newBook(t, keeper, rulings.Options{})
		short := block("short")
		short.Until = time.Now().Add(time.Minute)
		if _, _, err := book.Change(t.Context(), short); err != nil {
			t.Fatal(err)
		}
		left := func() int {
			all, _, _ := keeper.Load(t.Context(), -1)
			return len(all)
		}
		change := func(key string) {
			t.Helper()
			if _, _, err := book.Change(t.Context(), block(key)); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Pass(time.Minute)
		if find(book, "short") != nil || len(book.Table().InForce(time.Now())) != 0 {
			t.Error("a ruling was in force after its end")
		}
		if _, err := book.End(t.Context(), short, ""); !errors.Is(err, rulings.ErrNone) {
			t.Errorf("ending an ended ruling: got %v, want ErrNone", err)
		}
		change("a")
		if left() != 2 {
			t.Errorf("after a minute: got %d stored, want 2", left())
		}
		testkit.Pass(time.Hour)
		change("b")
		if left() != 2 {
			t.Errorf("after an hour: got %d stored, want 2", left())
		}
		short.Until = time.Now().Add(time.Minute)
		for i := left(); i < rulings.MaxRulings; i++ {
			r := short
			r.Key = time.Duration(i).String()
			if err := keeper.Apply(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := book.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := book.Change(t.Context(), block("c")); !errors.Is(err, rulings.ErrFull) {
			t.Errorf("with all in force: got %v, want ErrFull", err)
		}
		testkit.Pass(time.Minute)
		change("c")
	})
}

func TestBadChanges(t *testing.T) {
	book := newBook(t, rulings.InMemory(), rulings.Options{})
	past := time.Now().Add(-time.Second)
	for name, test := range map[string]struct {
		field  string
		change func(*rulings.Ruling)
	}{
		"no key":            {"key", func(r *rulings.Ruling) { r.Key = "" }},
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
		if _, _, err := book.Change(t.Context(), r); !errors.As(err, &wrong) || wrong.Field != test.field {
			t.Errorf("%s: got %v, want an error of the field %s", name, err, test.field)
		}
	}
	if _, _, err := book.Change(t.Context(), block("bob")); err != nil {
		t.Fatal(err)
	}
	var wrong *rulings.FieldError
	if _, err := book.End(t.Context(), block("bob"), rulings.Limits); !errors.As(err, &wrong) || wrong.Field != "kind" || find(book, "bob") == nil {
		t.Errorf("ending a block as limits: got %v, want an error of the field kind", err)
	}
	if _, err := book.End(t.Context(), block("eve"), ""); !errors.Is(err, rulings.ErrNone) {
		t.Errorf("ending a missing ruling: got %v, want ErrNone", err)
	}
}
