package grpclimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
)

// costOfReply charges by the length of the reply, and nothing for failures.
func costOfReply(_ context.Context, _ string, result grpclimit.Result) int64 {
	if text, ok := result.Reply.(*wrapperspb.StringValue); ok && result.Err == nil {
		return int64(len(text.Value)) + result.Cost
	}
	return 0
}

// left returns how many units of 100 are left.
func left(t *testing.T, limiter *slidegate.Limiter) int64 {
	t.Helper()
	d, err := limiter.Peek(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// The actual cost of a call is charged when it has ended: on the server, even if its handler panics, and on the client.
func TestCostAfter(t *testing.T) {
	settled := []grpclimit.Policy{{Key: grpclimit.Global(), CostAfter: costOfReply}}
	for name, test := range map[string]struct {
		handler grpc.UnaryHandler
		want    int64
	}{
		"a reply":  {func(context.Context, any) (any, error) { return wrapperspb.String("12345"), nil }, 94},
		"an error": {func(context.Context, any) (any, error) { return nil, errors.New("failed") }, 100},
		"a panic":  {func(context.Context, any) (any, error) { panic("of the handler") }, 100},
	} {
		limiter := newLimiter(t, newClock(), "100/1h")
		limits, err := grpclimit.New(limiter, grpclimit.Options{Policies: settled})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = limits.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: say}, test.handler)
		}()
		if got := left(t, limiter); got != test.want {
			t.Errorf("%s: got %d of 100 left, want %d", name, got, test.want)
		}
	}
	limiter := newLimiter(t, newClock(), "100/1h")
	client, err := grpclimit.NewClient(limiter, grpclimit.ClientOptions{Policies: settled})
	if err != nil {
		t.Fatal(err)
	}
	reply := wrapperspb.String("")
	err = client.Unary()(t.Context(), say, nil, reply, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		reply.Value = "12345"
		return nil
	})
	if got := left(t, limiter); err != nil || got != 94 {
		t.Errorf("on a client: got %d of 100 left, want 94; %v", got, err)
	}
}

// A shadow policy is charged by the reply too, and one with a Cost of 0 that is charged afterwards refuses once it is
// overdrawn.
func TestCostAfterInTheShadow(t *testing.T) {
	free := func(context.Context, string, any) int64 { return 0 }
	for _, shadow := range []bool{true, false} {
		limiter := newLimiter(t, newClock(), "100/1h")
		var last grpclimit.Event
		limits, err := grpclimit.New(limiter, grpclimit.Options{
			Policies:   []grpclimit.Policy{{Key: grpclimit.Global(), Shadow: shadow, Cost: free, CostAfter: costOfReply}},
			OnDecision: func(_ context.Context, event grpclimit.Event) { last = event },
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, allowed := range []bool{true, true, false} {
			_, err := limits.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: say},
				func(context.Context, any) (any, error) { return wrapperspb.String(strings.Repeat("x", 60)), nil })
			if last.Decision.Allowed != allowed || (err == nil) != (allowed || shadow) {
				t.Errorf("shadow %v: call %d: got event %+v and error %v, want allowed %v", shadow, i, last, err, allowed)
			}
		}
	}
}

// A stream is settled when its handler returns, and on a client when its end was received.
func TestCostAfterStream(t *testing.T) {
	after := func(_ context.Context, _ string, result grpclimit.Result) int64 {
		if result.Err != nil {
			return 50
		}
		return 7
	}
	settled := []grpclimit.Policy{{Key: grpclimit.Global(), CostAfter: after}}
	onServer, onClient := newLimiter(t, newClock(), "100/1h"), newLimiter(t, newClock(), "100/1h")
	client, err := grpclimit.NewClient(onClient, grpclimit.ClientOptions{Policies: settled})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, newServer(t, onServer, grpclimit.Options{Policies: settled}), grpc.WithStreamInterceptor(client.Stream()))
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chat)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = stream.RecvMsg(new(wrapperspb.StringValue))
	}
	if got := left(t, onClient); got != 93 {
		t.Errorf("on the client: got %d of 100 left, want 93", got)
	}
	if got := left(t, onServer); got != 93 {
		t.Errorf("on the server: got %d of 100 left, want 93", got)
	}
}

// With SendRemaining, calls report what is left, as HTTP responses do; calls that cost nothing too, and refusals in the
// trailer.
func TestSendRemaining(t *testing.T) {
	cost := int64(1)
	opts := grpclimit.Options{SendRemaining: true, Policies: []grpclimit.Policy{
		{Name: "a", Key: grpclimit.Global(), Limits: parse("3/1m sliding-window", "100/1h sliding-window name=long"), Cost: func(context.Context, string, any) int64 { return cost }},
		{Name: `b"`, Key: grpclimit.Global(), Limits: parse("9/1500ms sliding-window"), Cost: func(context.Context, string, any) int64 { return cost }},
	}}
	conn := dial(t, newServer(t, newLimiter(t, newClock()), opts))
	for i, step := range []struct {
		cost int64
		code codes.Code
		want string
	}{
		{1, codes.OK, `"a";r=2;t=100, "a/long";r=99;t=6400, "b\"";r=8;t=3`},
		{0, codes.OK, `"a";r=2;t=100, "a/long";r=99;t=6400, "b\"";r=8;t=3`},
		{2, codes.OK, `"a";r=0;t=60, "a/long";r=97;t=6400, "b\"";r=6;t=3`},
		{1, codes.ResourceExhausted, `"a";r=0;t=60, "a/long";r=97;t=6400, "b\"";r=6;t=3`},
	} {
		cost = step.cost
		var header, trailer metadata.MD
		err := conn.Invoke(t.Context(), say, wrapperspb.String("x"), new(wrapperspb.StringValue), grpc.Header(&header), grpc.Trailer(&trailer))
		wantCode(t, "a call", err, step.code)
		where := header
		if step.code != codes.OK {
			where = trailer
		}
		if got := where.Get("ratelimit"); len(got) != 1 || got[0] != step.want {
			t.Errorf("step %d: got ratelimit %q, want %s", i, got, step.want)
		}
		const policies = `"a";q=3;w=60, "a/long";q=100;w=3600, "b\"";q=9`
		if got := where.Get("ratelimit-policy"); len(got) != 1 || got[0] != policies {
			t.Errorf("step %d: got ratelimit-policy %q, want %s", i, got, policies)
		}
	}
	opts.Policies[0].Name = "grün"
	if _, err := grpclimit.New(newLimiter(t, nil), opts); err == nil {
		t.Error("got no error for a name that is not valid in metadata")
	}
}

// A client on a block list is refused without a call to the store, which would block.
func TestBlockList(t *testing.T) {
	limits, err := grpclimit.New(newFailingStore(t, failingStore{blocks: true}, "1/1m"), grpclimit.Options{
		Timeout:  -1,
		Policies: []grpclimit.Policy{{Key: grpclimit.Global(), Block: policy.List{Keys: []string{""}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a call", direct(t.Context(), limits), codes.PermissionDenied)
}
