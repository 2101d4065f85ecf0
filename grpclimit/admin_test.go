package grpclimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
)

// asUser returns the context of a call of a user.
func asUser(ctx context.Context, user string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("user", user))
}

// An administrator sees and resets exactly the usage under a policy, by its name and the client's key, or by a call.
func TestPeekAndReset(t *testing.T) {
	user := grpclimit.ByMetadata("user")
	for name, test := range map[string]struct {
		policy grpclimit.Policy
		byCall bool
	}{
		"own limits": {grpclimit.Policy{Name: "api", Key: user, Limits: parse("2/1h name=hour")}, false},
		"an override": {grpclimit.Policy{Name: "api", Key: user, Limits: parse("100/1h"), Overrides: []policy.Override{
			{Key: "ann", Limits: parse("2/1m")}}}, false},
		"a plan": {grpclimit.Policy{Name: "api", Key: user, Limits: parse("100/1h"), Plan: func(context.Context, string) (policy.Plan, error) {
			return policy.Limits(parse("2/1m name=gold")...), nil
		}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			limits, err := grpclimit.New(newLimiter(t, newClock()), grpclimit.Options{Policies: []grpclimit.Policy{test.policy}})
			if err != nil {
				t.Fatal(err)
			}
			ann := asUser(t.Context(), "ann")
			peek := func(remaining int64) {
				t.Helper()
				v, err := limits.Peek(t.Context(), "api", "ann")
				if test.byCall {
					if !errors.Is(err, slidegate.ErrUnsupported) {
						t.Errorf("Peek returned %v, want ErrUnsupported", err)
					}
				} else if err != nil || v.Decision.Remaining != remaining {
					t.Errorf("Peek returned %+v, %v; want %d remaining", v, err, remaining)
				}
				if v, err := limits.PeekCall(ann, say); err != nil || v.Decision.Remaining != remaining {
					t.Errorf("PeekCall returned %+v, %v; want %d remaining", v, err, remaining)
				}
			}
			wantCode(t, "the first", direct(ann, limits), codes.OK)
			wantCode(t, "the second", direct(ann, limits), codes.OK)
			peek(0)
			if err := limits.Reset(t.Context(), "api", "ann"); err != nil {
				t.Fatal(err)
			}
			peek(2)
			wantCode(t, "after the reset", direct(ann, limits), codes.OK)
			if err := limits.ResetCall(ann, say); err != nil {
				t.Fatal(err)
			}
			peek(2)
		})
	}
}

// An unknown policy or call is an error.
func TestPeekAndResetOfNothing(t *testing.T) {
	limits, err := grpclimit.New(newLimiter(t, nil), grpclimit.Options{Policies: []grpclimit.Policy{
		{Name: "api", Match: "/test.Echo/*", Limits: parse("1/1m")}, {Name: "web", Match: "/test.Web/*", Limits: parse("1/1m")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `unknown policy "apii"; want one of ["api" "web"]`
	if _, err := limits.Peek(t.Context(), "apii", "ann"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Peek returned %v, want %s", err, want)
	}
	if err := limits.Reset(t.Context(), "apii", "ann"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Reset returned %v, want %s", err, want)
	}
	if _, err := limits.PeekCall(t.Context(), "/other.Service/Call"); err == nil {
		t.Error("PeekCall of a call without a policy returned no error")
	}
	if err := limits.ResetCall(t.Context(), "/other.Service/Call"); err == nil {
		t.Error("ResetCall of a call without a policy returned no error")
	}
}
