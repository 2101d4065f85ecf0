// Package rulingstest tests implementations of rulings.Keeper.
package rulingstest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// Exercise tests an empty keeper, together with another keeper on the same store, as another instance would have it. Both
// may be the same. Fill stores many rulings together; nil means to apply them one by one.
func Exercise(t *testing.T, one, other rulings.Keeper, fill func([]rulings.Ruling)) {
	b := &bench{T: t, one: one, other: other, fill: fill, now: time.Now().UTC().Round(time.Microsecond)}
	b.empty()
	b.changes()
	b.names()
	b.concurrent()
	b.stale()
	b.full()
}

type bench struct {
	*testing.T
	one, other rulings.Keeper
	fill       func([]rulings.Ruling)
	now        time.Time
}

func (b *bench) ruling(key string, kind rulings.Kind) rulings.Ruling {
	r := rulings.Ruling{Policy: "p", Key: key, Kind: kind, Who: "ann@host", Why: "a \"reason\" — 理由", At: b.now, Until: b.now.Add(time.Hour)}
	if kind == rulings.Limits {
		r.Limits = []string{"1000/1m", "5/1s"}
	}
	return r
}

func (b *bench) apply(r rulings.Ruling, stale ...rulings.Ruling) {
	b.Helper()
	if err := b.one.Apply(b.Context(), r, stale); err != nil {
		b.Fatalf("applying %+v: %v", r, err)
	}
}

// load returns the rulings of the other keeper, by key, and the version.
func (b *bench) load() (map[string]rulings.Ruling, int64) {
	b.Helper()
	all, version, err := b.other.Load(b.Context(), -1)
	if err != nil {
		b.Fatal(err)
	}
	byKey := map[string]rulings.Ruling{}
	for _, r := range all {
		byKey[r.Key] = r
	}
	if len(byKey) != len(all) {
		b.Errorf("got %d rulings about %d keys, want one per key", len(all), len(byKey))
	}
	return byKey, version
}

func (b *bench) empty() {
	if all, version := b.load(); len(all) != 0 || version != 0 {
		b.Errorf("an empty keeper: got %v, version %d; want none, version 0", all, version)
	}
	if log, err := b.other.Log(b.Context(), 10); err != nil || len(log) != 0 {
		b.Errorf("the log of an empty keeper: got %v, %v; want none", log, err)
	}
}

func (b *bench) changes() {
	want := map[string]rulings.Ruling{}
	_, before := b.load()
	if err := b.one.Apply(b.Context(), b.ruling("a", rulings.Clear), nil); !errors.Is(err, rulings.ErrNone) {
		b.Errorf("ending a missing ruling: got %v, want ErrNone", err)
	}
	var done []rulings.Ruling
	for _, change := range []rulings.Ruling{
		b.ruling("a", rulings.Block), b.ruling("b", rulings.Limits), b.ruling("c", rulings.Unlimited),
		b.ruling("a", rulings.Limits), b.ruling("b", rulings.Clear),
	} {
		b.apply(change)
		done = append(done, change)
		if want[change.Key] = change; change.Kind == rulings.Clear {
			delete(want, change.Key)
		}
		got, version := b.load()
		if !reflect.DeepEqual(got, want) || version == before {
			b.Errorf("after %+v: got %v, version %d; want %v and a version other than %d", change, got, version, want, before)
		}
		before = version
		if all, same, err := b.other.Load(b.Context(), version); err != nil || all != nil || same != version {
			b.Errorf("loading a known version: got %v, %d, %v; want nothing and %d", all, same, err, version)
		}
	}
	slices.Reverse(done)
	if log, err := b.other.Log(b.Context(), 3); err != nil || !reflect.DeepEqual(log, done[:3]) {
		b.Errorf("the log: got %v, %v; want %v", log, err, done[:3])
	}
	if err := b.other.Apply(b.Context(), b.ruling("b", rulings.Clear), nil); !errors.Is(err, rulings.ErrNone) {
		b.Errorf("ending a ruling again: got %v, want ErrNone", err)
	}
}

// names checks unusual keys, and policies that could be confused with a part of a key.
func (b *bench) names() {
	for _, key := range []string{"", "\x00", "a b", `"`, "version", "é", "{x}", "a,b", string(make([]byte, 1024))} {
		r := b.ruling(key, rulings.Block)
		b.apply(r)
		got, _ := b.load()
		if !reflect.DeepEqual(got[key], r) {
			b.Errorf("key %q: got %+v, want %+v", key, got[key], r)
		}
		r.Kind = rulings.Clear
		b.apply(r)
	}
	x, y := b.ruling("b", rulings.Block), b.ruling("b", rulings.Block)
	x.Policy, y.Policy = "p1", "p2"
	b.apply(x)
	b.apply(y)
	x.Kind = rulings.Clear
	b.apply(x)
	if all, _ := b.load(); all["b"].Policy != "p2" {
		b.Errorf("a key of two policies: got %+v, want only the ruling of the second", all["b"])
	}
	y.Kind = rulings.Clear
	b.apply(y)
}

// concurrent changes rulings from two instances concurrently: no change is lost, and each makes a version.
func (b *bench) concurrent() {
	const each = 20
	_, before := b.load()
	var all sync.WaitGroup
	for i, keeper := range []rulings.Keeper{b.one, b.other} {
		all.Go(func() {
			for j := range each {
				if err := keeper.Apply(b.Context(), b.ruling(fmt.Sprint("at-once-", i, "-", j), rulings.Block), nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	found := 0
	kept, version := b.load()
	for key := range kept {
		if len(key) > 8 && key[:8] == "at-once-" {
			found++
		}
	}
	if found != 2*each || version < before+2*each {
		b.Errorf("%d concurrent changes: got %d rulings and version %d after %d, want all of them", 2*each, found, version, before)
	}
}

// stale removes rulings with a change, except one that was replaced in the meantime.
func (b *bench) stale() {
	old, renewed := b.ruling("old", rulings.Block), b.ruling("renewed", rulings.Block)
	b.apply(old)
	b.apply(renewed)
	next := renewed
	next.Why = "it goes on"
	b.apply(next)
	b.apply(b.ruling("new", rulings.Block), old, renewed)
	all, _ := b.load()
	if _, there := all["old"]; there || !reflect.DeepEqual(all["renewed"], next) || all["new"].Key != "new" {
		b.Errorf("after two stale rulings: got %v, want old gone and the new version of renewed", all)
	}
	b.apply(next, next)
	if all, _ := b.load(); !reflect.DeepEqual(all["renewed"], next) {
		b.Errorf("a change to a stale ruling: got %v, want it kept", all["renewed"])
	}
}

// full fills the keeper to capacity.
func (b *bench) full() {
	all, _ := b.load()
	var some []rulings.Ruling
	for i := len(all); i < rulings.MaxRulings; i++ {
		some = append(some, b.ruling(fmt.Sprint("full-", i), rulings.Block))
	}
	if b.fill != nil {
		b.fill(some)
	} else {
		for _, r := range some {
			b.apply(r)
		}
	}
	more := b.ruling("one more", rulings.Block)
	if err := b.other.Apply(b.Context(), more, nil); !errors.Is(err, rulings.ErrFull) {
		b.Errorf("one more than %d: got %v, want ErrFull", rulings.MaxRulings, err)
	}
	b.apply(some[0]) // replaces an existing one
	b.apply(more, some[1])
	if err := b.other.Apply(b.Context(), some[1], nil); !errors.Is(err, rulings.ErrFull) {
		b.Errorf("one more than %d again: got %v, want ErrFull", rulings.MaxRulings, err)
	}
	if all, _ := b.load(); len(all) != rulings.MaxRulings {
		b.Errorf("got %d rulings, want %d", len(all), rulings.MaxRulings)
	}
	log, err := b.other.Log(b.Context(), rulings.MaxLog+10)
	if max := rulings.MaxLog; err != nil || len(log) > max || b.fill == nil && len(log) < max || log[0].Key != "one more" {
		b.Errorf("the log: got %d lines, %v; want %d, newest first", len(log), err, max)
	}
}
