package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// stalledStore is a store whose first renewal waits until it is released.
type stalledStore struct {
	store.Store
	entered, letGo chan bool
}

func (s *stalledStore) Apply(ctx context.Context, batch []store.Request) error {
	if slices.ContainsFunc(batch, func(r store.Request) bool { return r.Op == rule.Renew }) {
		select {
		case s.entered <- true:
			<-s.letGo
		default:
		}
	}
	return s.Store.Apply(ctx, batch)
}

// Units are settled before or after a renewal of the slots, never during one: the work of a request may continue after its
// handler has returned.
func TestSettleDuringARenewal(t *testing.T) {
	on := &stalledStore{newMemory(t), make(chan bool), make(chan bool)}
	s := newSet(t, on, Options{}, Spec{Name: "p", Limits: []slidegate.Limit{slidegate.Slots(2, 300*time.Millisecond), named("units", 100)}})
	r := s.Begin()
	r.Slots = SlotsHeld
	r.Add(Part{Key: "ann", Cost: 70, Hold: true})
	var v policy.Decision
	r.Decide(t.Context(), rule.Take, &v)
	r.RenewSlots(t.Context(), nil)
	<-on.entered
	settled := make(chan error, 1)
	go func() { settled <- settleNow(t, r, always(30)) }()
	select {
	case <-settled:
		t.Fatal("the units were settled during a renewal, in the batch that it uses")
	case <-time.After(20 * time.Millisecond):
	}
	on.letGo <- true
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	r.Finish(t.Context(), nil, func(err error) { t.Error(err) })
	d, err := s.Limiter(0).Peek(t.Context(), "ann", 1)
	if err != nil || d.Answers[0].Remaining != 2 || d.Answers[1].Remaining != 70 {
		t.Errorf("got %+v, %v; want 2 slots and 70 units left", d.Answers, err)
	}
}
