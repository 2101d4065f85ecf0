package grpclimit_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
)

// BenchmarkUnary measures what the interceptor adds to a call.
func BenchmarkUnary(b *testing.B) {
	const many = "1000000000/1h"
	for _, c := range []struct {
		name    string
		from    string
		limiter []string
		opts    grpclimit.Options
	}{
		{"admitted/IPv4", "192.0.2.1:5000", []string{many}, grpclimit.Options{}},
		{"admitted/IPv6", "[2001:db8:1:2::3]:5000", []string{many}, grpclimit.Options{}},
		{"admitted/global", "192.0.2.1:5000", []string{many}, grpclimit.Options{Policies: []grpclimit.Policy{{Key: grpclimit.Global()}}}},
		{"admitted/two policies", "192.0.2.1:5000", []string{many}, grpclimit.Options{
			Policies: []grpclimit.Policy{{Name: "a"}, {Name: "b", Key: grpclimit.ByMethod()}},
		}},
		{"refused", "192.0.2.1:5000", []string{"1/1h"}, grpclimit.Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			limits, err := grpclimit.New(newLimiter(b, nil, c.limiter...), c.opts)
			if err != nil {
				b.Fatal(err)
			}
			ctx, intercept := from(tcp(c.from)), limits.Unary()
			info := &grpc.UnaryServerInfo{FullMethod: say}
			handler := func(context.Context, any) (any, error) { return nil, nil }
			b.ReportAllocs()
			for b.Loop() {
				_, _ = intercept(ctx, nil, info, handler)
			}
		})
	}
}

// An admitted call by address makes one allocation, for its key.
func TestAdmittedCallAllocatesItsKeyAlone(t *testing.T) {
	limits, err := grpclimit.New(newLimiter(t, nil, "1000000/1h"), grpclimit.Options{
		OnDecision: func(context.Context, grpclimit.Event) {},
		Policies:   []grpclimit.Policy{{Match: "/test.Echo/*", Skip: func(context.Context, string) bool { return false }, Plan: noPlan}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, intercept := from(tcp("192.0.2.1:5000")), limits.Unary()
	info := &grpc.UnaryServerInfo{FullMethod: say}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	if got := testing.AllocsPerRun(1000, func() { _, _ = intercept(ctx, nil, info, handler) }); got > 1 {
		t.Errorf("got %v allocations, want 1", got)
	}
}

func noPlan(context.Context, string) (policy.Plan, error) { return policy.Plan{}, nil }
