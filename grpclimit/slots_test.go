package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// remoteStore is a store in memory that is called like one with a round trip, and reports each request.
type remoteStore struct {
	store.Store
	onRequest func(*store.Request)
}

func (a remoteStore) Traits() store.Traits {
	traits := a.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

func (a remoteStore) Apply(ctx context.Context, batch []store.Request) error {
	for i := range batch {
		if a.onRequest != nil {
			a.onRequest(&batch[i])
		}
	}
	return a.Store.Apply(ctx, batch)
}

// slotLimits are interceptors with in-flight limits, and their store.
type slotLimits struct {
	*grpclimit.Interceptors
	settleReporter
}

// newSlots returns interceptors that admit n concurrent calls, with a store in process and a remote one.
func newSlots(t *testing.T, n int64) map[string]slotLimits {
	t.Helper()
	both := map[string]slotLimits{}
	for _, name := range []string{"in process", "away"} {
		memory, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var on store.Store = memory
		if name == "away" {
			on = remoteStore{Store: memory}
		}
		watched := newSettleReporter(on)
		limits, err := grpclimit.New(limiterOn(t, watched, nil), grpclimit.Options{Policies: []grpclimit.Policy{{
			Name: "slots", Key: grpclimit.Global(), Limits: []slidegate.Limit{slidegate.Slots(n, time.Minute)},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		both[name] = slotLimits{limits, watched}
	}
	return both
}

// freeSlots returns how many slots are free when all releases that have begun are done.
func freeSlots(t *testing.T, limits *grpclimit.Interceptors) int64 {
	t.Helper()
	if err := limits.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := limits.Peek(t.Context(), "slots", "")
	if err != nil {
		t.Fatal(err)
	}
	return v.Decision.Remaining
}

func wantSlots(t *testing.T, what string, limits *grpclimit.Interceptors, want int64) {
	t.Helper()
	if got := freeSlots(t, limits); got != want {
		t.Fatalf("%s: got %d slots free, want %d", what, got, want)
	}
}

// settleReporter is a store that reports each settlement, so that tests can wait for those that gRPC makes on its own
// goroutines.
type settleReporter struct {
	store.Store
	released chan struct{} // holds at most one report, which may stand for several
}

func newSettleReporter(on store.Store) settleReporter {
	return settleReporter{on, make(chan struct{}, 1)}
}

func (r settleReporter) Apply(ctx context.Context, batch []store.Request) error {
	err := r.Store.Apply(ctx, batch)
	if slices.ContainsFunc(batch, func(one store.Request) bool { return one.Op == rule.Settle }) {
		select {
		case r.released <- struct{}{}:
		default:
		}
	}
	return err
}

// await waits until a condition holds after a settlement.
func (r settleReporter) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tooLong := time.After(10 * time.Second)
	for !is() {
		select {
		case <-r.released:
		case <-tooLong:
			t.Fatalf("timed out after ten seconds: %s", what)
		}
	}
}

// Of two hundred concurrent calls with fifty slots, fifty run.
func TestConcurrentCallsAreBounded(t *testing.T) {
	const all, most = 200, 50
	for name, limits := range newSlots(t, most) {
		release := make(chan struct{})
		var running atomic.Int64
		block := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if running.Add(1) > most {
				t.Errorf("%s: more than %d calls run concurrently", name, most)
			}
			<-release
			running.Add(-1)
			return handler(ctx, request)
		}
		conn := dial(t, serve(t, grpc.ChainUnaryInterceptor(limits.Unary(), block)))
		results := make(chan codes.Code, all)
		for range all {
			go func() { results <- status.Code(call(t.Context(), conn, "a")) }()
		}
		for range all - most {
			if code := <-results; code != codes.ResourceExhausted {
				t.Fatalf("%s: got %v while all slots are held, want %v", name, code, codes.ResourceExhausted)
			}
		}
		wantSlots(t, name, limits.Interceptors, 0)
		close(release)
		for range most {
			if code := <-results; code != codes.OK {
				t.Errorf("%s: a call that held a slot got %v, want OK", name, code)
			}
		}
		limits.await(t, name+": all slots are free", func() bool { return freeSlots(t, limits.Interceptors) == most })
	}
}

// Whatever happens to calls, no slot stays held.
func TestNoSlotStaysHeld(t *testing.T) {
	const calls, workers = 1000, 20
	for name, limits := range newSlots(t, workers) {
		outer := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
			defer func() {
				if recover() != nil {
					err = status.Error(codes.Internal, "panicked")
				}
			}()
			return handler(ctx, request)
		}
		inner := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			switch text := fmt.Sprint(request); {
			case strings.Contains(text, "panic"):
				panic("a bug")
			case strings.Contains(text, "fail"):
				return nil, status.Error(codes.Unavailable, "failed")
			case strings.Contains(text, "wait"):
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return handler(ctx, request)
		}
		conn := dial(t, serve(t, grpc.ChainUnaryInterceptor(outer, limits.Unary(), inner), grpc.StreamInterceptor(limits.Stream())))
		var wg sync.WaitGroup
		for worker := range workers {
			random := rand.New(rand.NewPCG(3, uint64(worker)))
			wg.Go(func() {
				for range calls / workers {
					cutCall(t.Context(), conn, random)
				}
			})
		}
		wg.Wait()
		limits.await(t, name+": all slots are free", func() bool { return freeSlots(t, limits.Interceptors) == workers })
	}
}

// cutCall makes a call and ends it in one of many ways.
func cutCall(ctx context.Context, conn *grpc.ClientConn, random *rand.Rand) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch way := random.IntN(8); way {
	case 0, 1, 2:
		_ = call(ctx, conn, []string{"fine", "panic", "fail"}[way])
	case 3:
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_ = call(ctx, conn, "wait")
	case 4: // the client leaves immediately
		go cancel()
		_ = call(ctx, conn, "fine")
	default:
		stream, err := conn.NewStream(ctx, &chatDesc, chat)
		if err != nil {
			return
		}
		for range random.IntN(3) {
			_ = echo(stream, "a")
		}
		if way == 5 {
			_ = stream.CloseSend()
			for err == nil {
				err = stream.RecvMsg(new(wrapperspb.StringValue))
			}
		} // otherwise the client abandons it
	}
}

// A stream of ten times the time to live keeps its slot, on a real connection: the store's clock advances by a third of
// it with each renewal.
func TestLongStreamsKeepTheirSlot(t *testing.T) {
	const ttl = 60 * time.Millisecond
	clock := newClock()
	memory, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	var renewals atomic.Int64
	enough := make(chan struct{})
	watched := newSettleReporter(remoteStore{memory, func(r *store.Request) {
		if r.Op == rule.Renew {
			if clock.Advance(rule.Micros(ttl.Microseconds()) / 3); renewals.Add(1) == 30 {
				close(enough)
			}
		}
	}})
	seen := new(events)
	limits, err := grpclimit.New(limiterOn(t, watched, nil), grpclimit.Options{OnDecision: seen.add, Policies: []grpclimit.Policy{{
		Name: "slots", Key: grpclimit.Global(), Limits: []slidegate.Limit{slidegate.Slots(1, ttl)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, serve(t, grpc.UnaryInterceptor(limits.Unary()), grpc.StreamInterceptor(limits.Stream())))
	stream := open(t, conn, &chatDesc)
	wantCode(t, "the first message", echo(stream, "a"), codes.OK)
	<-enough
	wantCode(t, "a call beside the stream", call(t.Context(), conn, "a"), codes.ResourceExhausted)
	wantCode(t, "the stream", echo(stream, "a"), codes.OK)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = stream.RecvMsg(new(wrapperspb.StringValue))
	}
	watched.await(t, "the slot of the stream is free", func() bool { return freeSlots(t, limits) == 1 })
	for _, e := range seen.take() {
		if e.Err != nil {
			t.Errorf("got event %+v, want no error", e)
		}
	}
}

// A lost slot is reported with the method.
func TestLostSlotOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := storetest.NewClock(1_700_000_000_000_000)
		seen := new(events)
		limits, err := grpclimit.New(newLimiter(t, clock), grpclimit.Options{OnDecision: seen.add, Policies: []grpclimit.Policy{{
			Name: "slots", Key: grpclimit.Global(), Limits: []slidegate.Limit{slidegate.Slots(1, time.Minute)},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = limits.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: say}, func(context.Context, any) (any, error) {
			clock.Advance(2 * 60 * 1e6)
			pass(30 * time.Second)
			return nil, nil
		})
		got := seen.take()
		if len(got) != 2 || !errors.Is(got[1].Err, policy.ErrSlotLost) || got[1].Method != say || !got[1].Decision.Allowed {
			t.Errorf("got events %+v, want an admission, and a slot that was lost and taken again", got)
		}
		wantSlots(t, "the call has ended", limits, 1)
	})
}

// A plan can have in-flight limits; messages hold no slots.
func TestSlotsOfPlansAndMessages(t *testing.T) {
	limits := parse("1 in-flight ttl=1m")
	_, err := grpclimit.New(newLimiter(t, nil), grpclimit.Options{Policies: []grpclimit.Policy{{Name: "p", Limits: limits, PerMessage: true}}})
	if !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("an in-flight limit of messages: got error %v, want ErrUnsupported", err)
	}
	planned, err := grpclimit.New(newLimiter(t, nil), grpclimit.Options{Policies: []grpclimit.Policy{{
		Name: "slots", Key: grpclimit.Global(), Limits: parse("5/1h"),
		Plan: func(context.Context, string) (policy.Plan, error) { return policy.Limits(limits...), nil },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	info := &grpc.UnaryServerInfo{FullMethod: say}
	_, err = planned.Unary()(t.Context(), nil, info, func(context.Context, any) (any, error) {
		_, err := planned.Unary()(t.Context(), nil, info, func(context.Context, any) (any, error) { return nil, nil })
		return nil, err
	})
	wantCode(t, "a call inside one that holds the only slot", err, codes.ResourceExhausted)
	wantCode(t, "a call afterwards", direct(t.Context(), planned), codes.OK)
}

// A client holds a slot while a call lasts: until its response, until a stream has ended, and until it abandons one.
func TestClientSlots(t *testing.T) {
	watched := newSettleReporter(memstore.NewDefault())
	limiter := limiterOn(t, watched, []string{"1 in-flight ttl=1m"})
	client, err := grpclimit.NewClient(limiter, grpclimit.ClientOptions{Key: grpclimit.Global()})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, newServer(t, newLimiter(t, nil, "1000/1h"), grpclimit.Options{}), grpc.WithUnaryInterceptor(client.Unary()), grpc.WithStreamInterceptor(client.Stream()))
	free := func(what string, want int64) {
		t.Helper()
		if d, err := limiter.Peek(t.Context(), "", 1); err != nil || d.Remaining != want {
			t.Fatalf("%s: got %d slots free (%v), want %d", what, d.Remaining, err, want)
		}
	}
	for range 3 {
		wantCode(t, "a call", call(t.Context(), conn, "a"), codes.OK)
		free("a call has ended", 1)
		stream := open(t, conn, &chatDesc)
		wantCode(t, "a message", echo(stream, "a"), codes.OK)
		free("a stream is open", 0)
		wantCode(t, "a call beside the stream", call(t.Context(), conn, "a"), codes.ResourceExhausted)
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
			t.Fatalf("the stream ended with %v, want io.EOF", err)
		}
		free("a stream has ended", 1)

		ctx, cancel := context.WithCancel(t.Context())
		if _, err = conn.NewStream(ctx, &chatDesc, chat); err != nil {
			t.Fatal(err)
		}
		free("another stream is open", 0)
		cancel()
		watched.await(t, "the slot of a stream that was left is free", func() bool {
			d, err := limiter.Peek(t.Context(), "", 1)
			return err == nil && d.Remaining == 1
		})
	}
}

// A call that waits for a slot gets it soon after it is released, and not only when it would have expired.
func TestClientWaitsForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, grpclimit.ClientOptions{Wait: true, Key: grpclimit.Global()}, "1 in-flight ttl=1h")
		invoke := func(call func()) error {
			return client.Unary()(t.Context(), say, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				call()
				return nil
			})
		}
		end, ended := make(chan bool), make(chan error)
		go func() { _ = invoke(func() { <-end }) }()
		synctest.Wait()
		go func() { ended <- invoke(func() {}) }()
		pass(time.Second)
		released := time.Now()
		close(end)
		wantCode(t, "the second call", <-ended, codes.OK)
		if took := time.Since(released); took > 100*time.Millisecond {
			t.Errorf("the second call was made %v after the slot was released, want it soon after", took)
		}
	})
}

// canceledStream is a stream that is canceled while a message is in flight: RecvMsg returns it after gRPC has reported the
// end.
type canceledStream struct {
	grpc.ClientStream
	ended func(error)
}

func (s *canceledStream) RecvMsg(any) error {
	s.ended(context.Canceled)
	return nil
}

// A client that abandons a stream while it receives a message keeps no slot, nor does one whose stream could not be
// opened.
func TestClientLeavesWhileItReceives(t *testing.T) {
	watched := newSettleReporter(memstore.NewDefault())
	limiter := limiterOn(t, watched, []string{"1 in-flight ttl=1m"})
	client, err := grpclimit.NewClient(limiter, grpclimit.ClientOptions{Key: grpclimit.Global()})
	if err != nil {
		t.Fatal(err)
	}
	free := func(what string) {
		t.Helper()
		if d, err := limiter.Peek(t.Context(), "", 1); err != nil || d.Remaining != 1 {
			t.Errorf("%s: got %d slots free (%v), want 1", what, d.Remaining, err)
		}
	}
	stream, err := client.Stream()(t.Context(), &chatDesc, nil, chat,
		func(_ context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return &canceledStream{ended: opts[len(opts)-1].(grpc.OnFinishCallOption).OnFinish}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(nil); err != nil {
		t.Fatal(err)
	}
	free("the stream was left")

	func() {
		defer func() { _ = recover() }()
		_, _ = client.Stream()(t.Context(), &chatDesc, nil, chat,
			func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				panic("an interceptor inside")
			})
	}()
	free("opening it panicked")
}

// A slot is not renewed forever if OnDecision panics before the handler runs.
func TestSlotWhenOnDecisionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, nil, "1 in-flight ttl=3s")
		limits, err := grpclimit.New(limiter, grpclimit.Options{
			Policies:   []grpclimit.Policy{{Key: grpclimit.Global()}},
			OnDecision: func(context.Context, grpclimit.Event) { panic("in OnDecision") },
		})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = direct(t.Context(), limits)
		}()
		pass(4 * time.Second)
		if d, err := limiter.Peek(t.Context(), "", 1); err != nil || d.Remaining != 1 {
			t.Errorf("got %d slots free after the time to live (%v), want 1", d.Remaining, err)
		}
	})
}
