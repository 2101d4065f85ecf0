// Package kvtest checks an implementation of kvstore.Engine against its contract.
//
//	func TestEngine(t *testing.T) { kvtest.Run(t, engine) }
//
// It does not check that limits are kept: call storetest.Run with a kvstore.Store over the engine for that.
package kvtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
)

// Run checks an engine. Its names are unique to the run. It waits a few seconds for the engine to forget a value.
func Run(t *testing.T, engine kvstore.Engine) {
	t.Helper()
	e := &kit{engine, "kvtest-" + strings.ToLower(rand.Text()[:16])}
	for name, check := range map[string]func(*testing.T){
		"Create": e.create, "Swap": e.swap, "Values": e.values, "Names": e.names, "Concurrent": e.concurrent,
		"EndedContext": e.endedContext, "Forgets": e.forgets, "Clock": e.clock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
}

type kit struct {
	engine kvstore.Engine
	prefix string
}

const keep = time.Hour

// get reads a value and checks that it is want, or absent if want is nil.
func (k *kit) get(t *testing.T, name string, want []byte) (revision uint64) {
	t.Helper()
	got, revision, err := k.engine.Get(t.Context(), name)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if !bytes.Equal(got, want) || (revision == 0) != (want == nil) {
		t.Fatalf("Get returned %d bytes of revision %d, want %d bytes", len(got), revision, len(want))
	}
	return revision
}

// put swaps a value in and returns its revision.
func (k *kit) put(t *testing.T, name string, value []byte, revision uint64, keep time.Duration) uint64 {
	t.Helper()
	reported, err := k.engine.Swap(t.Context(), name, value, revision, keep)
	if err != nil {
		t.Fatalf("Swap: %v", err)
	}
	found := k.get(t, name, value)
	if reported != found {
		t.Fatalf("Swap returned revision %d, and Get returned %d", reported, found)
	}
	if found == revision {
		t.Fatalf("the revision is still %d after a Swap", found)
	}
	return found
}

// conflict tries a swap that must return ErrOutdated.
func (k *kit) conflict(t *testing.T, name string, revision uint64) {
	t.Helper()
	if _, err := k.engine.Swap(t.Context(), name, []byte("conflict"), revision, keep); !errors.Is(err, kvstore.ErrOutdated) {
		t.Fatalf("a Swap with a wrong revision returned %v, want ErrOutdated", err)
	}
}

func (k *kit) create(t *testing.T) {
	name := k.prefix + "-create"
	k.get(t, name, nil)
	k.conflict(t, name, 7)
	k.get(t, name, nil)
	k.put(t, name, []byte("a"), 0, keep)
	k.conflict(t, name, 0)
	k.get(t, name, []byte("a"))
}

func (k *kit) swap(t *testing.T) {
	name := k.prefix + "-swap"
	seen := map[uint64]bool{}
	var revision uint64
	for _, value := range []string{"a", "b", "a", "a"} {
		before := revision
		if revision = k.put(t, name, []byte(value), revision, keep); seen[revision] {
			t.Fatalf("revision %d was used twice", revision)
		}
		seen[revision] = true
		k.conflict(t, name, before)
		k.get(t, name, []byte(value))
	}
}

func (k *kit) values(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	largest := k.engine.Traits().MaxValue
	if largest == 0 {
		largest = 1 << 20
	}
	k.put(t, k.prefix+"-bytes", all, 0, keep)
	k.put(t, k.prefix+"-largest", bytes.Repeat([]byte{0xff}, largest), 0, keep)
}

func (k *kit) names(t *testing.T) {
	longest := k.engine.Traits().MaxName
	if longest == 0 {
		longest = 64
	}
	name := k.prefix + "-"
	name += strings.Repeat("z", longest-len(name))
	k.put(t, name, []byte("long"), 0, keep)
	k.put(t, name[:longest-1], []byte("shorter"), 0, keep)
	k.put(t, strings.ToUpper(name), []byte("upper case"), 0, keep)
	k.get(t, name, []byte("long"))
}

// concurrent increments a counter in several goroutines: no swap may be lost.
func (k *kit) concurrent(t *testing.T) {
	const goroutines, each = 8, 20
	name := k.prefix + "-concurrent"
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for range each {
				if err := k.increment(t.Context(), name); err != nil {
					t.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	k.get(t, name, binary.BigEndian.AppendUint64(nil, goroutines*each))
}

func (k *kit) increment(ctx context.Context, name string) error {
	for {
		value, revision, err := k.engine.Get(ctx, name)
		if err != nil {
			return err
		}
		var n uint64
		if len(value) == 8 {
			n = binary.BigEndian.Uint64(value)
		}
		_, err = k.engine.Swap(ctx, name, binary.BigEndian.AppendUint64(nil, n+1), revision, keep)
		if !errors.Is(err, kvstore.ErrOutdated) {
			return err
		}
	}
}

func (k *kit) endedContext(t *testing.T) {
	name := k.prefix + "-ended"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := k.engine.Get(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("Get with a canceled context returned %v, want context.Canceled", err)
	}
	if _, err := k.engine.Swap(ctx, name, []byte("a"), 0, keep); !errors.Is(err, context.Canceled) {
		t.Errorf("Swap with a canceled context returned %v, want context.Canceled", err)
	}
}

// forgets checks that the engine keeps a value for its time and removes it afterwards, that a swap replaces that time, and that
// values with long times are still there at the end.
func (k *kit) forgets(t *testing.T) {
	long := map[string]time.Duration{"-minute": time.Minute, "-year": 365 * 24 * time.Hour, "-decades": kvstore.MaxKeep / 2, "-longest": kvstore.MaxKeep}
	for name, keep := range long {
		k.put(t, k.prefix+name, []byte(name), 0, keep)
	}
	k.swapsTime(t)
	k.keepsItsTime(t)
	for name := range long {
		k.get(t, k.prefix+name, []byte(name))
	}
}

// swapsTime checks that a value is kept for the time of its last swap, be that longer or shorter than the one before.
func (k *kit) swapsTime(t *testing.T) {
	renewed := k.renew(t)
	short := k.prefix + "-short"
	revision := k.put(t, short, []byte("a"), 0, keep)
	k.write(t, short, []byte("b"), revision, time.Second)
	k.untilGone(t, short)
	k.conflict(t, short, revision)
	k.put(t, short, []byte("c"), 0, keep)
	k.get(t, renewed, []byte("b"))
}

// renew swaps a value with a time of a second for one with a long time, and returns its name. If the machine was so slow that
// the first value may have been removed before, it tries again with another name.
func (k *kit) renew(t *testing.T) string {
	t.Helper()
	for try := 0; ; try++ {
		name, begun := fmt.Sprint(k.prefix, "-renewed-", try), time.Now()
		k.write(t, name, []byte("a"), 0, time.Second)
		_, revision, err := k.engine.Get(t.Context(), name)
		if err == nil {
			_, err = k.engine.Swap(t.Context(), name, []byte("b"), revision, keep)
		}
		switch {
		case err == nil && revision != 0:
			return name
		case time.Since(begun) < time.Second:
			t.Fatalf("a value with a time of one second could not be swapped within that time: revision %d, %v", revision, err)
		}
	}
}

// write swaps a value in and does not read it again, because it may be gone soon.
func (k *kit) write(t *testing.T, name string, value []byte, revision uint64, keep time.Duration) {
	t.Helper()
	if _, err := k.engine.Swap(t.Context(), name, value, revision, keep); err != nil {
		t.Fatalf("Swap: %v", err)
	}
}

// keepsItsTime checks that a value is not gone before its time. It counts from before the swap, so a slow machine cannot make a
// correct engine fail. The time has a fraction of a second, because an engine that counts in seconds must round it up.
func (k *kit) keepsItsTime(t *testing.T) {
	const keep = 2500 * time.Millisecond
	name, begun := k.prefix+"-in-time", time.Now()
	k.write(t, name, []byte("a"), 0, keep)
	k.untilGone(t, name)
	if after := time.Since(begun); after < keep {
		t.Fatalf("a value that was to be kept for %v was gone after %v", keep, after)
	}
}

// untilGone waits until the engine has removed a value that has a time of a few seconds.
func (k *kit) untilGone(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for ; ; <-ticks.C {
		_, found, err := k.engine.Get(ctx, name)
		if err != nil {
			t.Fatalf("waiting for a value with a time of a few seconds to be removed: %v", err)
		}
		if found == 0 {
			return
		}
	}
}

func (k *kit) clock(t *testing.T) {
	before := k.engine.Now()
	for range 1000 {
		now := k.engine.Now()
		if now < before {
			t.Fatalf("the clock went back by %v", (before - now).Duration())
		}
		before = now
	}
	if apart := time.Since(before.Time()).Abs(); apart > time.Hour {
		t.Errorf("the clock differs from this machine's by %v", apart)
	}
}
