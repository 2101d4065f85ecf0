package grpclimit_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate/grpclimit"
)

// Concurrent callers, on several connections, are admitted exactly as often as the limit allows.
func TestNeverOverQuota(t *testing.T) {
	seen := new(events)
	address := newServer(t, newLimiter(t, newClock()), grpclimit.Options{
		OnDecision: seen.add,
		Policies: []grpclimit.Policy{
			{Name: "call", Match: say, Limits: parse("100/1h", "200/24h")},
			{Name: "message", Match: chat, Limits: parse("50/1h"), PerMessage: true, PerReply: true},
			{Name: "tried", Limits: parse("1/1h"), Shadow: true},
		},
	})
	client, err := grpclimit.NewClient(newLimiter(t, newClock(), "1000/1h"), grpclimit.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var admitted, echoed atomic.Int64
	for range 4 {
		limited := dial(t, address, grpc.WithUnaryInterceptor(client.Unary()), grpc.WithStreamInterceptor(client.Stream()))
		free := dial(t, address) // keeps sending, whatever the answer
		for range 4 {
			group.Go(func() {
				for range 20 {
					if call(t.Context(), free, "a") == nil {
						admitted.Add(1)
					}
				}
			})
			group.Go(func() {
				stream, err := limited.NewStream(t.Context(), &chatDesc, chat)
				if status.Code(err) == codes.ResourceExhausted {
					return // another stream was asked to wait before this one opened
				}
				if err != nil {
					t.Error(err)
					return
				}
				group.Go(func() {
					for range 10 {
						if stream.SendMsg(wrapperspb.String("a")) != nil {
							return
						}
					}
					_ = stream.CloseSend()
				})
				for err == nil {
					if err = stream.RecvMsg(new(wrapperspb.StringValue)); err == nil {
						echoed.Add(1)
					}
				}
				if code := status.Code(err); code != codes.ResourceExhausted && code != codes.Unknown { // the end is unknown
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	if got := admitted.Load(); got != 100 {
		t.Errorf("got %d of 320 calls admitted, want 100", got)
	}
	units := 0 // of the messages
	for _, event := range seen.take() {
		if event.Policy == "message" && event.Decision.Allowed {
			units++
		}
	}
	if units != 50 || echoed.Load() > 24 { // a stream takes 1 before its first echo, which takes 2
		t.Errorf("got %d units taken and %d messages echoed, want 50 and at most 24", units, echoed.Load())
	}
}
