package grpclimit_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// A call whose key or plan cannot be found is refused in every failure mode, and the event has the error.
func TestKeyAndPlanFail(t *testing.T) {
	broken := errors.New("the database is down")
	fails := grpclimit.KeyFunc(func(context.Context, string) (string, error) { return "", broken })
	for name, given := range map[string]grpclimit.Policy{
		"key": {Name: "api", Key: fails}, "all of": {Name: "api", Key: grpclimit.AllOf(grpclimit.ByMethod(), fails)},
		"plan": {Name: "api", Plan: func(context.Context, string) (policy.Plan, error) { return policy.Plan{}, broken }},
	} {
		for _, mode := range []store.Mode{store.FailOpen, store.FailClosed} {
			seen := new(events)
			limits, err := grpclimit.New(newLimiter(t, newClock(), "1/1m"), grpclimit.Options{OnDecision: seen.add, Failure: mode, Policies: []grpclimit.Policy{given}})
			if err != nil {
				t.Fatal(err)
			}
			wantCode(t, name, direct(t.Context(), limits), codes.Unavailable)
			if got := seen.take(); len(got) != 1 || !errors.Is(got[0].Err, broken) || got[0].Policy != "api" || !got[0].Refused {
				t.Errorf("%s, %v: got events %+v, want one with the database's error", name, mode, got)
			}
		}
	}
	client, err := grpclimit.NewClient(nil, grpclimit.ClientOptions{Key: fails})
	if err != nil {
		t.Fatal(err)
	}
	err = client.Unary()(t.Context(), say, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		t.Error("the call was sent")
		return nil
	})
	wantCode(t, "a client", err, codes.Unavailable)
}
