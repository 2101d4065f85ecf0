package grpclimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/store"
)

// remote stands in for a server: it returns what the test specifies, and counts what is sent to it.
type remote struct {
	client *grpclimit.Client
	err    error
	sent   atomic.Int64
}

func newRemote(t *testing.T, limiter *slidegate.Limiter, opts grpclimit.ClientOptions) *remote {
	t.Helper()
	client, err := grpclimit.NewClient(limiter, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &remote{client: client}
}

func (r *remote) call(ctx context.Context, method string, conn *grpc.ClientConn) error {
	return r.client.Unary()(ctx, method, nil, nil, conn,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			r.sent.Add(1)
			return r.err
		})
}

// retryError returns a server's refusal with a retry delay.
func retryError(d time.Duration) error {
	answer, err := status.New(codes.ResourceExhausted, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return answer.Err()
}

// checkElapsed checks that exactly want has passed since start.
func checkElapsed(t *testing.T, what string, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("%s took %v, want %v", what, got, want)
	}
}

func TestClientWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(events)
		r := newRemote(t, newLimiter(t, nil, "2/1m sliding-log"), grpclimit.ClientOptions{Wait: true, OnDecision: seen.add})
		start := time.Now()
		for i, want := range []time.Duration{0, 0, time.Minute, time.Minute, 2 * time.Minute} {
			wantCode(t, "a call", r.call(t.Context(), say, nil), codes.OK)
			checkElapsed(t, "a call", start, want)
			if r.sent.Load() != int64(i+1) {
				t.Errorf("call %d: got %d sent, want %d", i, r.sent.Load(), i+1)
			}
		}
		got := seen.take() // the third and the fifth had to wait first
		if len(got) != 5 || !got[2].Decision.Allowed || got[1].Waited != 0 || got[2].Waited != time.Minute || got[4].Waited != time.Minute {
			t.Errorf("got events %+v; want 5, the third and the fifth allowed after a minute", got)
		}
	})
}

func TestClientRefusesWhatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(events)
		r := newRemote(t, newLimiter(t, nil, "1/1m sliding-log name=out"), grpclimit.ClientOptions{Wait: true, OnDecision: seen.add})
		start := time.Now()
		wantCode(t, "the first", r.call(t.Context(), say, nil), codes.OK)
		for _, deadline := range []time.Duration{30 * time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			err := r.call(ctx, say, nil)
			cancel()
			wantCode(t, "with a deadline", err, codes.ResourceExhausted)
			checkElapsed(t, "the refusal", start, 0)
			if after, ok := grpclimit.RetryAfter(err); after != time.Minute || !ok {
				t.Errorf("got %v, want 1m", after)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Microsecond)
		defer cancel()
		wantCode(t, "with just enough time", r.call(ctx, say, nil), codes.OK)
		checkElapsed(t, "the wait", start, time.Minute)
		if got := seen.take(); !got[1].Refused || !got[2].Refused || r.sent.Load() != 2 {
			t.Errorf("got %d sent and events %+v; want 2 sent, and the second and third refused", r.sent.Load(), got)
		}
	})
}

func TestClientWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, newLimiter(t, nil, "1/1m sliding-log"), grpclimit.ClientOptions{})
		start := time.Now()
		wantCode(t, "the first", r.call(t.Context(), say, nil), codes.OK)
		wantCode(t, "the second", r.call(t.Context(), say, nil), codes.ResourceExhausted)
		checkElapsed(t, "the refusal", start, 0)
		time.Sleep(time.Minute)
		wantCode(t, "a minute later", r.call(t.Context(), say, nil), codes.OK)
		if r.sent.Load() != 2 {
			t.Errorf("got %d sent, want 2", r.sent.Load())
		}
	})
}

func TestClientNeverAndCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, nil, "2/1m sliding-log")
		cost := int64(3)
		r := newRemote(t, limiter, grpclimit.ClientOptions{Wait: true, Policies: []grpclimit.Policy{{
			Cost: func(context.Context, string, any) int64 { return cost },
		}}})
		wantCode(t, "3 of 2", r.call(t.Context(), say, nil), codes.ResourceExhausted)
		cost = 2
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		wantCode(t, "a call whose caller has left", r.call(gone, say, nil), codes.Canceled)
		start := time.Now()
		wantCode(t, "the first", r.call(t.Context(), say, nil), codes.OK) // so nothing was taken for those
		checkElapsed(t, "the first", start, 0)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		wantCode(t, "a call that is given up", r.call(ctx, say, nil), codes.Canceled)
		checkElapsed(t, "giving up", start, 10*time.Second)
		if r.sent.Load() != 1 {
			t.Errorf("got %d sent, want 1", r.sent.Load())
		}
	})
}

// Where refused requests use quota, a waiting client must not take too early, or it would wait forever.
func TestClientWaitsWhereRefusalsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, newLimiter(t, nil, "1/1m sliding-log count-refused"), grpclimit.ClientOptions{Wait: true})
		start := time.Now()
		wantCode(t, "the first", r.call(t.Context(), say, nil), codes.OK)
		time.Sleep(20 * time.Second) // a refusal now would postpone it until 1m20s
		wantCode(t, "the second", r.call(t.Context(), say, nil), codes.OK)
		checkElapsed(t, "the second", start, time.Minute)
	})
}

// A cost can depend on the request, on a client too.
func TestClientCostOfRequest(t *testing.T) {
	client := newClient(t, grpclimit.ClientOptions{Policies: []grpclimit.Policy{{Cost: costOfText}}}, "4/1h")
	send := func(text string) error {
		return client.Unary()(t.Context(), say, wrapperspb.String(text), nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
	}
	wantCode(t, "3 of 4", send("123"), codes.OK)
	wantCode(t, "2 more", send("12"), codes.ResourceExhausted)
	wantCode(t, "1 more", send("1"), codes.OK)
}

func TestClientStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := newFailingStore(t, failingStore{err: errDown}, "1/1m sliding-log count-refused")
		open := newRemote(t, down, grpclimit.ClientOptions{Wait: true})
		wantCode(t, "open", open.call(t.Context(), say, nil), codes.OK)
		closed := newRemote(t, down, grpclimit.ClientOptions{Wait: true, Failure: store.FailClosed})
		wantCode(t, "closed", closed.call(t.Context(), say, nil), codes.Unavailable)
		local := newRemote(t, down, grpclimit.ClientOptions{Wait: true, Failure: store.FailLocal})
		start := time.Now()
		for range 3 {
			wantCode(t, "fallback", local.call(t.Context(), say, nil), codes.OK)
		}
		checkElapsed(t, "three calls by the fallback", start, 2*time.Minute)
		if open.sent.Load() != 1 || closed.sent.Load() != 0 || local.sent.Load() != 3 {
			t.Errorf("got %d, %d and %d sent, want 1, 0 and 3", open.sent.Load(), closed.sent.Load(), local.sent.Load())
		}
	})
}

func TestClientKeepsToWhatServersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(events)
		r := newRemote(t, nil, grpclimit.ClientOptions{Wait: true, OnDecision: seen.add})
		start := time.Now()
		r.err = retryError(10*time.Second + time.Microsecond)
		wantCode(t, "the first", r.call(t.Context(), say, nil), codes.ResourceExhausted)
		r.err = nil

		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := r.call(short, say, nil)
		cancel()
		wantCode(t, "with a short deadline", err, codes.ResourceExhausted)
		if after, _ := grpclimit.RetryAfter(err); after != 10*time.Second+time.Microsecond || r.sent.Load() != 1 {
			t.Errorf("got RetryAfter %v and %d sent; want %v and 1", after, r.sent.Load(), 10*time.Second+time.Microsecond)
		}
		checkElapsed(t, "the refusal", start, 0)
		wantCode(t, "another method", r.call(t.Context(), chat, nil), codes.OK)
		checkElapsed(t, "another method", start, 0)
		wantCode(t, "the same method", r.call(t.Context(), say, nil), codes.OK)
		checkElapsed(t, "the wait", start, 10*time.Second+time.Microsecond)
		wantCode(t, "once more", r.call(t.Context(), say, nil), codes.OK)
		checkElapsed(t, "once more", start, 10*time.Second+time.Microsecond)

		got := seen.take()
		if len(got) != 2 || !got[0].Held || !got[0].Refused || !got[1].Held || got[1].Refused || got[0].Method != say {
			t.Errorf("got events %+v; want 2, both held, of %s, only the first refused", got, say)
		}
	})
}

func TestClientHoldIsOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type user struct{}
		key := grpclimit.KeyFunc(func(ctx context.Context, _ string) (string, error) { return ctx.Value(user{}).(string), nil })
		limiter := newLimiter(t, nil, "3/1h")
		r := newRemote(t, limiter, grpclimit.ClientOptions{Key: key})
		as := func(name string) context.Context { return context.WithValue(t.Context(), user{}, name) }
		r.err = retryError(time.Minute)
		wantCode(t, "ann", r.call(as("ann"), say, nil), codes.ResourceExhausted)
		r.err = nil
		for range 5 { // refused, and takes nothing from ann's own limit
			wantCode(t, "ann, held", r.call(as("ann"), say, nil), codes.ResourceExhausted)
		}
		for range 3 {
			wantCode(t, "bob", r.call(as("bob"), say, nil), codes.OK)
		}
		wantCode(t, "bob's own limit", r.call(as("bob"), say, nil), codes.ResourceExhausted)
		time.Sleep(time.Minute - time.Nanosecond)
		wantCode(t, "ann, early", r.call(as("ann"), say, nil), codes.ResourceExhausted)
		time.Sleep(time.Nanosecond)
		for range 2 {
			wantCode(t, "ann, in time", r.call(as("ann"), say, nil), codes.OK)
		}
		wantCode(t, "ann's own limit", r.call(as("ann"), say, nil), codes.ResourceExhausted)
		if r.sent.Load() != 6 {
			t.Errorf("got %d sent, want 6", r.sent.Load())
		}
	})
}

// A hold that comes while a call waits is obeyed as well.
func TestClientHoldComesWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, newLimiter(t, nil, "1/10s sliding-log"), grpclimit.ClientOptions{Wait: true})
		start := time.Now()
		slow := make(chan error)
		go func() { // its answer comes after five seconds
			slow <- r.client.Unary()(t.Context(), say, nil, nil, nil,
				func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					time.Sleep(5 * time.Second)
					return retryError(30 * time.Second)
				})
		}()
		synctest.Wait()
		done := make(chan error)
		go func() { done <- r.call(t.Context(), say, nil) }()
		wantCode(t, "the slow one", <-slow, codes.ResourceExhausted)
		wantCode(t, "the one that waits", <-done, codes.OK)
		checkElapsed(t, "the wait", start, 35*time.Second)
	})
}

// A call that waits for its units and then for a hold that outlasts its context is not sent, and takes nothing, with or
// without a CostAfter.
func TestClientGivesBackWhatIsNotSent(t *testing.T) {
	for name, after := range map[string]func(context.Context, string, grpclimit.Result) int64{
		"with a CostAfter":    func(_ context.Context, _ string, result grpclimit.Result) int64 { return result.Cost },
		"without a CostAfter": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter := newLimiter(t, nil, "3/10s sliding-log")
			r := newRemote(t, limiter, grpclimit.ClientOptions{Wait: true, Policies: []grpclimit.Policy{{
				Cost: func(context.Context, string, any) int64 { return 3 }, CostAfter: after,
			}}})
			slow := make(chan error)
			go func() {
				slow <- r.client.Unary()(t.Context(), say, nil, nil, nil,
					func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
						time.Sleep(5 * time.Second)
						return retryError(30 * time.Second)
					})
			}()
			synctest.Wait()
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			wantCode(t, name, r.call(ctx, say, nil), codes.ResourceExhausted)
			checkElapsed(t, "the refusal "+name, start, 10*time.Second)
			wantCode(t, "the slow one", <-slow, codes.ResourceExhausted)
			if got := left(t, limiter); got != 3 || r.sent.Load() != 0 {
				t.Errorf("%s: got %d of 3 left and %d sent, want 3 and 0", name, got, r.sent.Load())
			}
			time.Sleep(25 * time.Second)
			wantCode(t, "after the hold", r.call(t.Context(), say, nil), codes.OK)
			if got := left(t, limiter); got != 0 || r.sent.Load() != 1 {
				t.Errorf("%s: after the hold got %d of 3 left and %d sent, want 0 and 1", name, got, r.sent.Load())
			}
		})
	}
}

func TestClientIgnoresOtherAnswers(t *testing.T) {
	bare := status.Error(codes.ResourceExhausted, "too large")
	other, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]error{
		"no details": bare, "another code": other.Err(), "no time at all": retryError(0), "a time that has passed": retryError(-time.Hour),
		"no error of gRPC": errDown, "its own deadline": context.DeadlineExceeded,
	} {
		r := newRemote(t, nil, grpclimit.ClientOptions{})
		r.err = answer
		for range 3 {
			if got := r.call(t.Context(), say, nil); status.Code(got) != status.Code(answer) {
				t.Errorf("%s: got %v, want %v", name, got, answer)
			}
		}
		if r.sent.Load() != 3 {
			t.Errorf("%s: got %d sent, want 3", name, r.sent.Load())
		}
	}
}

func TestClientObeysNoLongerThanMaxObey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for given, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: time.Minute} {
			r := newRemote(t, nil, grpclimit.ClientOptions{Wait: true, MaxObey: given})
			r.err = retryError(1000 * time.Hour)
			wantCode(t, "the first", r.call(t.Context(), say, nil), codes.ResourceExhausted)
			r.err = nil
			start := time.Now()
			wantCode(t, "the second", r.call(t.Context(), say, nil), codes.OK)
			checkElapsed(t, "the wait", start, want)
		}
	})
}

// Two targets are independent, in limits and in holds.
func TestClientTargets(t *testing.T) {
	one, two := dial(t, "one.example:1"), dial(t, "two.example:1")
	limited := newRemote(t, newLimiter(t, newClock(), "1/1m"), grpclimit.ClientOptions{})
	held := newRemote(t, nil, grpclimit.ClientOptions{})
	held.err = retryError(time.Hour)
	for name, r := range map[string]*remote{"limit": limited, "hold": held} {
		for _, conn := range []*grpc.ClientConn{one, two} {
			_ = r.call(t.Context(), say, conn) // is sent
			wantCode(t, name, r.call(t.Context(), say, conn), codes.ResourceExhausted)
		}
		if r.sent.Load() != 2 {
			t.Errorf("%s: got %d sent, want 2", name, r.sent.Load())
		}
	}
}

// Both sides together: what the server refused once, the client does not send again.
func TestClientAndServer(t *testing.T) {
	atServer := new(events)
	address := newServer(t, newLimiter(t, newClock(), "1/1h"), grpclimit.Options{OnDecision: atServer.add})
	client, err := grpclimit.NewClient(nil, grpclimit.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, address, grpc.WithUnaryInterceptor(client.Unary()), grpc.WithStreamInterceptor(client.Stream()))
	wantCode(t, "the first", call(t.Context(), conn, "a"), codes.OK)
	for range 5 {
		wantCode(t, "another", call(t.Context(), conn, "a"), codes.ResourceExhausted)
	}
	if got := len(atServer.take()); got != 2 {
		t.Errorf("the server decided %d calls, want 2", got)
	}
	wantCode(t, "a stream", echo(open(t, conn, &chatDesc), "a"), codes.ResourceExhausted)
	for range 5 {
		_, err := conn.NewStream(t.Context(), &chatDesc, chat)
		wantCode(t, "another stream", err, codes.ResourceExhausted)
	}
	if got := len(atServer.take()); got != 1 {
		t.Errorf("the server decided %d streams, want 1", got)
	}
}

// Waiting calls are sent in the order in which they came.
func TestClientSendsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, newLimiter(t, nil, "1/1s token-bucket"), grpclimit.ClientOptions{Wait: true})
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
				defer cancel()
				want := codes.OK
				if i > 5 {
					want = codes.ResourceExhausted
				}
				wantCode(t, "a call", r.call(ctx, say, nil), want)
				if i > 5 {
					checkElapsed(t, "the refusal", start, 0)
				} else {
					checkElapsed(t, "the wait", start, time.Duration(i)*time.Second)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
}
