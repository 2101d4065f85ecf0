package lease_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// A lease of a global limit serves the requests of users whose own limit cannot be leased. A request that their limit
// refuses takes nothing from it.
func TestGlobalLeaseServesEveryUser(t *testing.T) {
	user := slidegate.Limit{Name: "user", Quota: 5, Window: time.Hour, Algorithm: slidegate.SlidingLog}
	global := slidegate.Limit{Name: "global", Quota: 10_000, Window: time.Hour, Algorithm: slidegate.FixedWindow, Lease: true}
	synctest.Test(t, func(t *testing.T) {
		memory := newDistant(t, memstore.Options{})
		s := lease.New(memory, lease.Options{})
		l, err := slidegate.New(s)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		const users, each = 100, 7
		admitted, leased := int64(0), 0
		for i := range users * each {
			d, err := l.For(slidegate.Claim{Limit: user, Key: fmt.Sprint("user-", i%users)}, slidegate.Claim{Limit: global}).Allow(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if want := i < users*5; d.Allowed != want || !d.Answers[1].Allowed {
				t.Fatalf("request %d: %+v, want allowed %v", i, d, want)
			}
			if !d.Allowed && d.LimitName != "user" {
				t.Fatalf("request %d was refused by %s", i, d.LimitName)
			}
			if d.Allowed {
				admitted++
			}
			if d.Answers[1].Flags&rule.Leased != 0 {
				leased++
			}
			<-time.After(time.Millisecond)
		}
		if least := users * each * 9 / 10; leased < least {
			t.Errorf("%d requests spent from the lease, want at least %d", leased, least)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		exact, err := slidegate.New(memory.Store, global)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := exact.Peek(ctx, "", 1); err != nil || d.Quota-d.Remaining != admitted {
			t.Errorf("got %d used of the global limit, want %d, %v", d.Quota-d.Remaining, admitted, err)
		}
	})
}
