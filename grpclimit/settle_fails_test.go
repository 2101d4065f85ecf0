package grpclimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// takesOnly is a store that cannot settle anything.
type takesOnly struct{ store.Store }

func (s takesOnly) Apply(ctx context.Context, batch []store.Request) error {
	if batch[0].Op == rule.Settle {
		for i := range batch {
			batch[i].Err = errDown
		}
		return errDown
	}
	return s.Store.Apply(ctx, batch)
}

// The event of a failed settlement names the policy.
func TestSettleFails(t *testing.T) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := slidegate.New(takesOnly{memory}, parse("5/1m")...)
	if err != nil {
		t.Fatal(err)
	}
	seen := new(events)
	limits, err := grpclimit.New(limiter, grpclimit.Options{OnDecision: seen.add, Policies: []grpclimit.Policy{{
		Name: "api", CostAfter: func(context.Context, string, grpclimit.Result) int64 { return 3 },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a call", direct(t.Context(), limits), codes.OK)
	if err := limits.Drain(t.Context()); err != nil { // it is tried again meanwhile
		t.Error(err)
	}
	if got := seen.take(); len(got) != 2 || got[1].Policy != "api" || !errors.Is(got[1].Err, errDown) {
		t.Errorf("got events %+v, want the second of two with api and errDown", got)
	}
}

// All errors of policies are reported together.
func TestMatchAndLimitsAreBothWrong(t *testing.T) {
	_, err := grpclimit.New(newLimiter(t, nil), grpclimit.Options{Policies: []grpclimit.Policy{{Name: "a", Match: "Say"}}})
	for _, want := range []string{"match", "no limits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s in it", err, want)
		}
	}
}
