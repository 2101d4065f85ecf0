package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// The methods of the service that the tests call. Say echoes its request, Chat echoes every message, List answers one
// request with three messages, Collect answers any number of messages with their total length.
const (
	say     = "/test.Echo/Say"
	chat    = "/test.Echo/Chat"
	list    = "/test.Echo/List"
	collect = "/test.Echo/Collect"
)

var (
	chatDesc    = grpc.StreamDesc{StreamName: "Chat", Handler: serveChat, ClientStreams: true, ServerStreams: true}
	listDesc    = grpc.StreamDesc{StreamName: "List", Handler: serveList, ServerStreams: true}
	collectDesc = grpc.StreamDesc{StreamName: "Collect", Handler: serveCollect, ClientStreams: true}

	echoDesc = grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Say", Handler: serveSay}},
		Streams:     []grpc.StreamDesc{chatDesc, listDesc, collectDesc},
	}
)

func serveSay(service any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	request := new(wrapperspb.StringValue)
	if err := decode(request); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: service, FullMethod: say}
	return intercept(ctx, request, info, func(_ context.Context, request any) (any, error) { return request, nil })
}

func serveChat(_ any, stream grpc.ServerStream) error {
	for {
		message := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if message.Value == "drop" { // a handler that continues after a refusal must not get anywhere
			_ = stream.RecvMsg(message)
			_ = stream.RecvMsg(message)
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}

func serveList(_ any, stream grpc.ServerStream) error {
	request := new(wrapperspb.StringValue)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	for range 3 {
		if err := stream.SendMsg(request); err != nil {
			return err
		}
	}
	return nil
}

func serveCollect(_ any, stream grpc.ServerStream) error {
	total := 0
	for {
		message := new(wrapperspb.StringValue)
		err := stream.RecvMsg(message)
		if errors.Is(err, io.EOF) {
			return stream.SendMsg(wrapperspb.Int64(int64(total)))
		}
		if err != nil {
			return err
		}
		total += len(message.Value)
	}
}

// newClock returns a store's clock that only the test moves.
func newClock() *storetest.Clock { return storetest.NewClock(1_700_000_000_000_000) }

func parse(texts ...string) (l []slidegate.Limit) {
	for _, text := range texts {
		l = append(l, slidegate.MustParseLimit(text))
	}
	return l
}

// newLimiter returns a limiter over a store in memory; a nil clock is the real one. Without limits it is for limits
// that are given per call.
func newLimiter(t testing.TB, c *storetest.Clock, limits ...string) *slidegate.Limiter {
	t.Helper()
	opts := memstore.Options{}
	if c != nil {
		opts.Now = c.Now
	}
	store, err := memstore.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return limiterOn(t, store, limits)
}

// pass lets time pass in a synctest bubble, until everything that is due has been done. Elsewhere it panics: no test
// waits for a real clock.
func pass(d time.Duration) {
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}

func limiterOn(t testing.TB, on store.Store, limits []string) *slidegate.Limiter {
	t.Helper()
	limiter, err := slidegate.New(on)
	if err == nil && len(limits) > 0 {
		limiter, err = slidegate.New(on, parse(limits...)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// newServer serves the test's service with limits, on its own port.
func newServer(t testing.TB, limiter *slidegate.Limiter, opts grpclimit.Options) (address string) {
	t.Helper()
	limits, err := grpclimit.New(limiter, opts)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, grpc.UnaryInterceptor(limits.Unary()), grpc.StreamInterceptor(limits.Stream()))
}

// serve serves the test's service on its own port.
func serve(t testing.TB, opts ...grpc.ServerOption) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(opts...)
	server.RegisterService(&echoDesc, nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t testing.TB, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// call calls Say.
func call(ctx context.Context, conn *grpc.ClientConn, text string, opts ...grpc.CallOption) error {
	return conn.Invoke(ctx, say, wrapperspb.String(text), new(wrapperspb.StringValue), opts...)
}

// wantCode checks the code of err.
func wantCode(t testing.TB, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("%s: got %v (%v), want %v", what, got, err, want)
	}
}

// details returns the details of a refusal.
func details(t testing.TB, err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.RetryInfo:
			retry = detail
		case *errdetails.QuotaFailure:
			quota = detail
		default:
			t.Errorf("got a detail of type %T, want only RetryInfo and QuotaFailure", detail)
		}
	}
	return retry, quota
}

// events records the events passed to OnDecision.
type events struct {
	mu  sync.Mutex
	all []grpclimit.Event
}

func (e *events) add(_ context.Context, event grpclimit.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// take returns the recorded events, and clears them.
func (e *events) take() []grpclimit.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// failingStore is a store that never answers: it fails immediately, or when the context ends.
type failingStore struct {
	err    error
	blocks bool
}

var errDown = errors.New("the store at 10.1.2.3 is down")

func (f failingStore) Apply(ctx context.Context, batch []store.Request) error {
	err := f.err
	if f.blocks {
		<-ctx.Done()
		err = ctx.Err()
	}
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

func (failingStore) Check(*store.Limit) error { return nil }
func (failingStore) Traits() store.Traits {
	return store.Traits{Name: "failing", MaxCharges: 8, RoundTrips: 1}
}

func newFailingStore(t testing.TB, f failingStore, limits ...string) *slidegate.Limiter {
	t.Helper()
	return limiterOn(t, f, limits)
}
