package engine

import (
	"log/slog"
	"reflect"
	"runtime"
	"sync"

	"github.com/slidegate/slidegate/store"
)

// countsID identifies the counts of a limit without a name in a store.
type countsID struct {
	store  uintptr // only its address, so that no store is kept alive
	prefix string
}

// unnamed is how many Sets have a limit without a name. It is global, because two middlewares need not know each other.
var unnamed = struct {
	mu sync.Mutex
	by map[countsID]int
}{by: map[countsID]int{}}

// warnUnnamed logs a limit without a name that another Set in use has on the same store: one middleware around another would charge each
// request twice. Such limits are hardly meant to count together anyway: five logins a minute would use up the five registrations.
func (s *Set) warnUnnamed() {
	bottom := baseOf(s.store)
	if s.limiter == nil || bottom == nil || reflect.TypeOf(bottom).Kind() != reflect.Pointer {
		return
	}
	own := map[countsID]string{} // the labels
	for i := range s.policies {
		for _, bound := range s.BoundLimits(i) {
			if bound.Name() == "" {
				own[countsID{reflect.ValueOf(bottom).Pointer(), bound.Prefix()}] = bound.Label()
			}
		}
	}
	if len(own) == 0 {
		return
	}
	unnamed.mu.Lock()
	defer unnamed.mu.Unlock()
	for id, label := range own {
		if unnamed.by[id] > 0 {
			slog.Warn("slidegate: two middlewares on one store have the same limit without a name, so they share its counts; "+
				"name their policies to count separately, or the limit if this is meant", slog.String("limit", label))
			break
		}
	}
	for id := range own {
		unnamed.by[id]++
	}
	runtime.AddCleanup(s, forgetUnnamed, own)
}

// forgetUnnamed is called when a Set is not in use anymore.
func forgetUnnamed(own map[countsID]string) {
	unnamed.mu.Lock()
	defer unnamed.mu.Unlock()
	for id := range own {
		if unnamed.by[id]--; unnamed.by[id] == 0 {
			delete(unnamed.by, id)
		}
	}
}

// baseOf returns the store below all layers.
func baseOf(st store.Store) store.Store {
	for {
		wrapper, wraps := st.(store.Wrapper)
		if !wraps {
			return st
		}
		st = wrapper.Unwrap()
	}
}
