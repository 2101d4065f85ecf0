package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// bind returns a bound limit of one minute.
func bind(namespace, name string, quota int64) *store.Limit {
	limit := rule.Limit{Quota: quota, Window: 60_000_000, Segments: 1}
	return store.Bind(namespace, name, fmt.Sprintf("%d/1m", quota), limit)
}

// other returns a limit of quota 5 that differs from bind's, also in its label.
func other(limit rule.Limit) *store.Limit {
	limit.Quota, limit.Window, limit.Segments = 5, cmp.Or(limit.Window, 60_000_000), 1
	return store.Bind("", "", "100/1m", limit)
}

func TestRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		first, second *store.Limit
		conflict      bool
	}{
		"other quotas":     {bind("", "", 5), bind("", "", 100), true},
		"equal":            {bind("", "", 5), bind("", "", 5), false},
		"named":            {bind("", "api", 5), bind("", "api", 100), false},
		"one named":        {bind("", "", 5), bind("", "api", 100), false},
		"other namespaces": {bind("a", "", 5), bind("b", "", 100), false},
		"one namespace":    {bind("a", "", 5), bind("a", "", 100), true},
		"refusals count":   {bind("", "", 5), other(rule.Limit{CountRefused: true}), true},
		"other overlap":    {bind("", "", 5), other(rule.Limit{Overlap: rule.OverlapWhole}), true},
		"other window":     {bind("", "", 5), other(rule.Limit{Window: 1_000_000}), false},
	} {
		var r store.Registry
		if err := r.Declare(test.first); err != nil {
			t.Errorf("%s: the first limit: %v", name, err)
		}
		for range 2 { // a rejected limit is not remembered
			err := r.Declare(test.second)
			if errors.Is(err, store.ErrConflict) != test.conflict || err != nil && !test.conflict {
				t.Errorf("%s: got %v, want a conflict: %v", name, err, test.conflict)
			}
			if err != nil && (!strings.Contains(err.Error(), `"5/1m"`) || !strings.Contains(err.Error(), `"100/1m"`)) {
				t.Errorf("%s: %q does not name both limits", name, err)
			}
		}
		if err := r.Declare(test.first); err != nil {
			t.Errorf("%s: the first limit again: %v", name, err)
		}
	}
}

// A program that makes limiters in ever new namespaces neither fills the memory nor gets errors.
func TestRegistryIsBounded(t *testing.T) {
	var r store.Registry
	if err := r.Declare(bind("", "", 5)); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if err := r.Declare(bind(fmt.Sprint("tenant ", i), "", 5)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Declare(bind("", "", 6)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the first limit is forgotten: %v", err)
	}
	if err := r.Declare(bind("tenant 19999", "", 6)); err != nil {
		t.Errorf("the last limit is still remembered: %v", err)
	}
}

// Of conflicting limits that are declared concurrently, all equal ones are accepted, and none of the others.
func TestRegistryConcurrently(t *testing.T) {
	var r store.Registry
	var mu sync.Mutex
	accepted := map[int64]int{}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			quota := int64(1 + i%4)
			if r.Declare(bind("", "", quota)) == nil {
				mu.Lock()
				defer mu.Unlock()
				accepted[quota]++
			}
		})
	}
	wg.Wait()
	if len(accepted) != 1 {
		t.Errorf("accepted by quota: %v, want one quota", accepted)
	}
	for quota, n := range accepted {
		if n != 10 {
			t.Errorf("accepted %d of 10 limits with quota %d", n, quota)
		}
	}
}
