package policy

import (
	"context"
	"runtime"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// listed is a store that cannot be compared with another.
type listed struct {
	store.Store
	_ []string
}

// A store may be of any type, also where a middleware finds itself inside of another.
func TestNestedOverIncomparableStore(t *testing.T) {
	on := listed{Store: newMemory(t)}
	outer := newSet(t, on, Options{}, Policy{Limits: []slidegate.Limit{named("api", 5)}})
	inner := newSet(t, on, Options{}, Policy{Limits: []slidegate.Limit{named("api", 5)}})
	outer.Nested()
	inner.Nested()
	part := Part{Key: "k", Cost: 1}
	var v Verdict
	ctx := outer.Follow(context.Background(), "", &v, part)
	if inner.Follow(ctx, "", &v, part); v.Twice {
		t.Error("stores that cannot be compared are one, want them apart")
	}
}

// Sets that have limits of the same name in the same store know of each other for as long as both are in use.
func TestShared(t *testing.T) {
	one, other := newMemory(t), newMemory(t)
	limits := func(name string) Policy { return Policy{Limits: []slidegate.Limit{named(name, 5)}} }
	first := newSet(t, one, Options{}, limits("api"))
	newSet(t, other, Options{}, limits("api"))
	newSet(t, one, Options{}, limits("web"))
	if first.Shared() {
		t.Error("limits of another name, and in another store, are shared, want them apart")
	}
	second := newSet(t, one, Options{Failure: Local}, Policy{Name: "api", Limits: []slidegate.Limit{named("x", 5)}})
	if !first.Shared() || !second.Shared() {
		t.Errorf("limits called api in the same store: shared is %t and %t, want it of both", first.Shared(), second.Shared())
	}
	runtime.KeepAlive(second)
	for range 1000 { // the collector says when
		if runtime.GC(); !first.Shared() {
			break
		}
		runtime.Gosched()
	}
	if first.Shared() {
		t.Error("the other set is gone, and shared is true")
	}
}
