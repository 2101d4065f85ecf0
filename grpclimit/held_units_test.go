package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/internal/testkit"
)

// A call that outlasts the window holds its units until it has ended, and is charged then.
func TestCallsHoldUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, err := grpclimit.New(newLimiter(t, nil), grpclimit.Options{Policies: []grpclimit.Policy{{
			Name: "tokens", Key: grpclimit.Global(), Limits: parse("10/1s hold=3s"),
			Cost: func(context.Context, string, any) int64 { return 5 },
		}}})
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 3)
		send := func() {
			_, err := limits.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: say}, func(context.Context, any) (any, error) {
				<-time.After(10 * time.Second)
				return nil, nil
			})
			errs <- err
		}
		go send()
		go send()
		testkit.Pass(9 * time.Second) // nine windows, and three holds
		send()
		if err := <-errs; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("while 10 are held: got %v, want a refusal", err)
		}
		testkit.Pass(1100 * time.Millisecond)
		if a, b := <-errs, <-errs; a != nil || b != nil {
			t.Errorf("got the errors %v and %v", a, b)
		}
		if v, err := limits.Peek(t.Context(), "tokens", ""); err != nil || v.Remaining != 0 {
			t.Errorf("after the end of both: got %+v, %v, want 10 charged", v, err)
		}
		testkit.Pass(time.Second)
		if v, err := limits.Peek(t.Context(), "tokens", ""); err != nil || v.Remaining != 10 {
			t.Errorf("a window later: got %+v, %v, want 10 left", v, err)
		}
	})
}
