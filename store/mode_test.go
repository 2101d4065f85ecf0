package store_test

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func TestModeNames(t *testing.T) {
	for mode := store.FailOpen; mode < store.Modes; mode++ {
		if got, err := store.ParseMode(mode.String()); got != mode || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", mode, got, err)
		}
	}
	if _, err := store.ParseMode(""); err == nil {
		t.Error("the empty name was accepted")
	}
}

func TestLimitInMode(t *testing.T) {
	limit := store.Bind("n", "a", "a", rule.Limit{Quota: 1, Window: 1e6, Algorithm: rule.FixedWindow, Segments: 1})
	closed := limit.In(store.FailClosed)
	switch {
	case closed.Mode() != store.FailClosed || limit.Mode() != 0:
		t.Errorf("modes are %v and %v", closed.Mode(), limit.Mode())
	case closed != limit.In(store.FailClosed) || closed.In(0) != limit || closed.In(store.FailOpen) != limit.In(store.FailOpen):
		t.Error("the same limit in the same mode is not the same pointer")
	case closed.ID() == limit.ID() || closed.Prefix() != limit.Prefix() || closed.Hash("g", "k") != limit.Hash("g", "k"):
		t.Error("a limit in another mode has its own ID and the same address")
	}
}

// The hash of an address depends on all of its parts and on nothing else.
func TestHashOfAnAddress(t *testing.T) {
	bind := func(namespace, name string, quota int64) *store.Limit {
		return store.Bind(namespace, name, "", rule.Limit{Quota: quota, Window: 1e6, Algorithm: rule.FixedWindow, Segments: 1})
	}
	one := bind("n", "a", 1)
	if one.Hash("g", "k") != bind("n", "a", 2).Hash("g", "k") {
		t.Error("the quota is no part of an address, but changes its hash")
	}
	seen := map[uint64]string{}
	for what, hash := range map[string]uint64{
		"plain": one.Hash("g", "k"), "another namespace": bind("m", "a", 1).Hash("g", "k"), "another name": bind("n", "b", 1).Hash("g", "k"),
		"no group": one.Hash("", "k"), "another key": one.Hash("g", "l"), "group and key swapped": one.Hash("k", "g"), "no key": one.Hash("g", ""),
	} {
		if other, ok := seen[hash]; ok {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[hash] = what
	}
}

// seen is a store that remembers the modes of the limits that it was asked about.
type seen struct {
	store.Store
	modes []store.Mode
}

func (s *seen) Apply(ctx context.Context, batch []store.Request) error {
	for i := range batch {
		for _, c := range batch[i].Charges {
			s.modes = append(s.modes, c.Limit.Mode())
		}
	}
	return s.Store.Apply(ctx, batch)
}

func TestViewSetsTheMode(t *testing.T) {
	below := &seen{Store: memstore.NewDefault()}
	view := store.In(store.In(below, store.FailOpen), store.FailClosed)
	if store.ModeOf(view) != store.FailClosed || store.ModeOf(below) != 0 {
		t.Fatalf("ModeOf is %v and %v", store.ModeOf(view), store.ModeOf(below))
	}
	limit := store.Bind("n", "a", "a", rule.Limit{Quota: 2, Window: 1e6, Algorithm: rule.FixedWindow, Segments: 1})
	ctx := t.Context()
	if allowed, _, _, _, _, _, err := store.Single(view).TakeSingle(ctx, limit, "k", 1); !allowed || err != nil {
		t.Fatalf("TakeSingle: %v, %v", allowed, err)
	}
	answers := make([]rule.Answer, 1)
	batch := []store.Request{{Op: rule.Take, Charges: []store.Charge{{Limit: limit, Key: "k", Cost: 1}}, Answers: answers}}
	if err := view.Apply(ctx, batch); err != nil || !answers[0].Allowed || answers[0].Remaining != 0 {
		t.Fatalf("Apply: %+v, %v", answers[0], err)
	}
	if batch[0].Charges[0].Limit != limit {
		t.Error("the caller's request was changed")
	}
	if len(below.modes) != 2 || below.modes[0] != store.FailClosed || below.modes[1] != store.FailClosed {
		t.Errorf("the store was asked in the modes %v", below.modes)
	}
}
