package engine

import (
	"context"
	"runtime"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// incomparableStore is a store of an incomparable type.
type incomparableStore struct {
	store.Store
	_ []string
}

// A store may be of any type, even if a middleware is inside another.
func TestNestedOverIncomparableStore(t *testing.T) {
	on := incomparableStore{Store: newMemory(t)}
	outer := newSet(t, on, Options{}, Spec{Limits: []slidegate.Limit{named("api", 5)}})
	inner := newSet(t, on, Options{}, Spec{Limits: []slidegate.Limit{named("api", 5)}})
	outer.MarkNested()
	inner.MarkNested()
	part := Part{Key: "k", Cost: 1}
	var v policy.Decision
	ctx := outer.Trace(context.Background(), "", &v, part)
	if inner.Trace(ctx, "", &v, part); v.ChargedTwice {
		t.Error("incomparable stores are the same, want them different")
	}
}

// Sets with limits of the same name in the same store know of each other for as long as both are in use.
func TestSetsKnowOfEachOther(t *testing.T) {
	one, other := newMemory(t), newMemory(t)
	limits := func(name string) Spec { return Spec{Limits: []slidegate.Limit{named(name, 5)}} }
	first := newSet(t, one, Options{}, limits("api"))
	newSet(t, other, Options{}, limits("api"))
	newSet(t, one, Options{}, limits("web"))
	if first.Shared() {
		t.Error("limits of another name, or in another store, are shared")
	}
	second := newSet(t, one, Options{Failure: store.FailLocal}, Spec{Name: "api", Limits: []slidegate.Limit{named("x", 5)}})
	if !first.Shared() || !second.Shared() {
		t.Errorf("limits named api in the same store: got shared %t and %t, want both", first.Shared(), second.Shared())
	}
	runtime.KeepAlive(second)
	for range 1000 { // until the garbage collector has run
		if runtime.GC(); !first.Shared() {
			break
		}
		runtime.Gosched()
	}
	if first.Shared() {
		t.Error("the other set is gone, but shared is still true")
	}
}
