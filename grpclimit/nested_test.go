package grpclimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
)

// An interceptor inside another that charges the same limit of the same store for the same key reports it, in its
// events and once in the log.
func TestOneCallIsChargedTwice(t *testing.T) {
	for _, test := range []struct {
		name         string
		outer, inner string
		inside       grpclimit.Options
		twice        bool
	}{
		{"the same", "100/1m", "100/1m", grpclimit.Options{}, true},
		{"of the same name", "100/1m name=api", "100/1m", grpclimit.Options{Policies: []grpclimit.Policy{{Name: "api"}}}, true},
		{"settled afterwards", "100/1m", "100/1m", grpclimit.Options{Policies: []grpclimit.Policy{
			{CostAfter: func(context.Context, string, grpclimit.Result) int64 { return 1 }}}}, true},
		{"another name", "100/1m name=api", "100/1m name=web", grpclimit.Options{}, false},
		{"messages of a stream", "100/1m name=api", "100/1m name=web", grpclimit.Options{Policies: []grpclimit.Policy{{PerMessage: true, PerReply: true}}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, text := slog.Default(), new(bytes.Buffer)
			slog.SetDefault(slog.New(slog.NewTextHandler(text, nil)))
			defer slog.SetDefault(before)
			store, err := memstore.New(memstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			outerEvents, innerEvents := new(events), new(events)
			outer := intercept(t, store, test.outer, grpclimit.Options{OnDecision: outerEvents.add})
			test.inside.OnDecision = innerEvents.add
			inner := intercept(t, store, test.inner, test.inside)
			for range 2 {
				_, err := outer.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: say}, func(ctx context.Context, _ any) (any, error) {
					return inner.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: say}, func(context.Context, any) (any, error) { return nil, nil })
				})
				if err != nil {
					t.Fatal(err)
				}
				info := &grpc.StreamServerInfo{FullMethod: collect, IsClientStream: true, IsServerStream: true}
				err = outer.Stream()(nil, &silentStream{ctx: t.Context()}, info, func(_ any, s grpc.ServerStream) error {
					return inner.Stream()(nil, s, info, func(_ any, s grpc.ServerStream) error { return s.SendMsg(nil) })
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, event := range innerEvents.take() {
				if event.ChargedTwice != test.twice {
					t.Errorf("the inner interceptor's event on %s: got Twice %t, want %t", event.Method, event.ChargedTwice, test.twice)
				}
			}
			for _, event := range outerEvents.take() {
				if event.ChargedTwice {
					t.Errorf("the outer interceptor's event on %s: got Twice", event.Method)
				}
			}
			if lines := strings.Count(text.String(), "charged twice"); lines != map[bool]int{true: 1}[test.twice] {
				t.Errorf("logged %d times, want once if twice is %t: %s", lines, test.twice, text)
			}
		})
	}
}

// Interceptors that are installed twice charge a call twice.
func TestInterceptorsInstalledTwiceChargeTwice(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	defer slog.SetDefault(before)
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := new(events)
	limits := intercept(t, store, "100/1m", grpclimit.Options{OnDecision: seen.add})
	first, second := limits.Unary(), limits.Unary()
	info := &grpc.UnaryServerInfo{FullMethod: say}
	_, _ = first(t.Context(), nil, info, func(ctx context.Context, _ any) (any, error) {
		return second(ctx, nil, info, func(context.Context, any) (any, error) { return nil, nil })
	})
	if got := seen.take(); len(got) != 2 || got[0].ChargedTwice || !got[1].ChargedTwice {
		t.Errorf("got events %+v, want the second of two with Twice", got)
	}
}

// The metadata of both interceptors about what is left reaches the client.
func TestMetadataOfNestedInterceptors(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts := grpclimit.Options{SendRemaining: true}
	outer, inner := intercept(t, store, "100/1m name=all", opts), intercept(t, store, "5/1m name=login", opts)
	conn := dial(t, serve(t, grpc.ChainUnaryInterceptor(outer.Unary(), inner.Unary())))
	var header metadata.MD
	if err := call(t.Context(), conn, "a", grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(header["ratelimit"], ", ")
	if !strings.HasPrefix(got, `"all";r=99;`) || !strings.Contains(got, `, "login";r=4;`) {
		t.Errorf("got ratelimit %s, want what is left of all and of login", got)
	}
}

func intercept(t *testing.T, store *memstore.Store, limit string, opts grpclimit.Options) *grpclimit.Interceptors {
	t.Helper()
	limiter, err := slidegate.New(store, parse(limit)...)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := grpclimit.New(limiter, opts)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// silentStream is a stream that sends nothing.
type silentStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (f *silentStream) Context() context.Context    { return f.ctx }
func (f *silentStream) SetHeader(metadata.MD) error { return nil }
func (f *silentStream) SetTrailer(metadata.MD)      {}
func (f *silentStream) SendMsg(any) error           { return nil }
