package engine

import (
	"fmt"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

// A policy is in the register of names once, however many overrides it has: what the register does grows with the square of its
// names.
func TestRegisterHasEachNameOnce(t *testing.T) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := Spec{Name: "api", Limits: []slidegate.Limit{slidegate.PerMinute(5)}}
	for i := range 100 {
		p.Overrides = append(p.Overrides, policy.Override{Key: fmt.Sprint(i), Limits: []slidegate.Limit{slidegate.PerMinute(int64(i + 6))}})
	}
	set, err := New(slidegate.MustNew(memory), []Spec{p}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(set.sharer.names); got != 1 {
		t.Errorf("got %d names, want 1", got)
	}
}
