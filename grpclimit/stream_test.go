package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate/grpclimit"
)

func open(t *testing.T, conn *grpc.ClientConn, desc *grpc.StreamDesc) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), desc, "/test.Echo/"+desc.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// echo sends a text and receives the reply.
func echo(stream grpc.ClientStream, text string) error {
	if err := stream.SendMsg(wrapperspb.String(text)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return stream.RecvMsg(new(wrapperspb.StringValue))
}

func TestStreamIsChargedWhenItOpens(t *testing.T) {
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "2/1m"), grpclimit.Options{}))
	for range 2 {
		stream := open(t, conn, &chatDesc)
		for range 10 { // messages are free unless a policy has PerMessage
			wantCode(t, "a message", echo(stream, "a"), codes.OK)
		}
	}
	stream := open(t, conn, &chatDesc)
	err := echo(stream, "a")
	wantCode(t, "the third stream", err, codes.ResourceExhausted)
	if retry, quota := details(t, err); retry == nil || len(quota.GetViolations()) != 1 {
		t.Errorf("got details %v and %v, want a RetryInfo and one violation", retry, quota)
	}
	if got := stream.Trailer()["grpc-retry-pushback-ms"]; len(got) != 1 {
		t.Errorf("got grpc-retry-pushback-ms %q, want one value", got)
	}
}

func TestPerMessage(t *testing.T) {
	c, seen := newClock(), new(events)
	conn := dial(t, newServer(t, newLimiter(t, c), grpclimit.Options{
		OnDecision: seen.add,
		Policies: []grpclimit.Policy{
			{Name: "open", Limits: parse("2/1h")},
			{Name: "messages", Match: chat, Limits: parse("4/1m sliding-log"), PerMessage: true},
		},
	}))
	stream := open(t, conn, &chatDesc) // takes one of each
	for range 3 {
		wantCode(t, "a message", echo(stream, "a"), codes.OK)
	}
	c.Advance(10_000_000)
	err := echo(stream, "a")
	wantCode(t, "the fourth message", err, codes.ResourceExhausted)
	if retry, _ := details(t, err); retry.GetRetryDelay().AsDuration() != 50*time.Second {
		t.Errorf("got RetryInfo %v, want 50s", retry)
	}
	if got := stream.Trailer()["grpc-retry-pushback-ms"]; len(got) != 1 || got[0] != "50000" {
		t.Errorf("got trailer %q, want 50000", got)
	}
	got := seen.take()
	if len(got) != 6 || got[5].Policy != "messages" || !got[5].Refused || got[5].Method != chat {
		t.Errorf("got events %+v; want 6, the last a refusal by messages of %s", got, chat)
	}
	c.Advance(50_000_000)
	stream = open(t, conn, &chatDesc)
	wantCode(t, "a message a minute later", echo(stream, "a"), codes.OK)
	if got := seen.take(); len(got) != 3 || got[0].Policy != "open" || got[2].Decision.Remaining != 2 {
		t.Errorf("got events %+v, want 2 messages left", got) // and of streams none
	}
}

// After a refusal nothing passes, and the trailer has one value, whatever the handler does.
func TestRefusedStreamStaysRefused(t *testing.T) {
	seen := new(events)
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "2/1m"), grpclimit.Options{
		OnDecision: seen.add,
		Policies:   []grpclimit.Policy{{PerMessage: true}},
	}))
	stream := open(t, conn, &chatDesc)
	for _, text := range []string{"drop", "a", "b", "c"} {
		if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
			break // the server was quicker
		}
	}
	wantCode(t, "the stream", stream.RecvMsg(new(wrapperspb.StringValue)), codes.ResourceExhausted)
	if got := stream.Trailer()["grpc-retry-pushback-ms"]; len(got) != 1 {
		t.Errorf("got trailer %q, want one value", got)
	}
	if got := seen.take(); len(got) != 3 || !got[2].Refused {
		t.Errorf("got %d events, want 3: the stream, a message, a refusal", len(got))
	}
}

func TestPerReply(t *testing.T) {
	seen := new(events)
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "5/1m"), grpclimit.Options{
		OnDecision: seen.add,
		Policies:   []grpclimit.Policy{{PerReply: true, PerMessage: true}},
	}))
	receive := func(stream grpc.ClientStream) (received int, err error) {
		if err := stream.SendMsg(wrapperspb.String("a")); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for ; err == nil; received++ {
			err = stream.RecvMsg(new(wrapperspb.StringValue))
		}
		return received - 1, err
	}
	// The stream takes 1, and its three replies 3; the one request is the call itself.
	n, err := receive(open(t, conn, &listDesc))
	if n != 3 || !errors.Is(err, io.EOF) {
		t.Fatalf("got %d replies and %v, want 3 and io.EOF", n, err)
	}
	if got := len(seen.take()); got != 4 {
		t.Errorf("got %d units requested, want 4", got)
	}
	n, err = receive(open(t, conn, &listDesc)) // takes the fifth
	wantCode(t, "the second list", err, codes.ResourceExhausted)
	if n != 0 {
		t.Errorf("got %d replies, want none", n)
	}
}

// costOfText returns 1 to open a stream, and the length of every message.
func costOfText(_ context.Context, _ string, message any) int64 {
	if message == nil {
		return 1
	}
	return int64(len(message.(*wrapperspb.StringValue).Value))
}

// The only reply of a stream is not charged, and the cost can depend on each message.
func TestCollect(t *testing.T) {
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "6/1m"), grpclimit.Options{
		Policies: []grpclimit.Policy{{PerReply: true, PerMessage: true, Cost: costOfText}},
	}))
	collectAll := func(texts ...string) (int64, error) {
		stream := open(t, conn, &collectDesc)
		for _, text := range texts {
			if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
				break
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		total := new(wrapperspb.Int64Value)
		err := stream.RecvMsg(total)
		return total.Value, err
	}
	total, err := collectAll("12", "345") // takes 1 to open, and 5
	if err != nil || total != 5 {
		t.Fatalf("got %d and %v, want 5", total, err)
	}
	_, err = collectAll()
	wantCode(t, "one more", err, codes.ResourceExhausted)
}

// twoWay is a stream on which a message arrives only when the test sends it.
type twoWay struct {
	grpc.ServerStream
	ctx      context.Context
	arrive   chan struct{}
	trailers int
}

func (s *twoWay) Context() context.Context { return s.ctx }
func (s *twoWay) RecvMsg(any) error        { <-s.arrive; return nil }
func (s *twoWay) SendMsg(any) error        { return nil }
func (s *twoWay) SetTrailer(metadata.MD)   { s.trailers++ }

// When both directions are refused, the client gets the first refusal, once.
func TestBothDirectionsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		limits, err := grpclimit.New(newLimiter(t, c, "1/1m sliding-log"), grpclimit.Options{
			Policies: []grpclimit.Policy{{PerMessage: true, PerReply: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		under := &twoWay{ctx: t.Context(), arrive: make(chan struct{})}
		info := &grpc.StreamServerInfo{FullMethod: chat, IsClientStream: true, IsServerStream: true}
		err = limits.Stream()(nil, under, info, func(_ any, stream grpc.ServerStream) error {
			received := make(chan error)
			go func() { received <- stream.RecvMsg(nil) }()
			synctest.Wait() // now it waits for a message
			first := stream.SendMsg(nil)
			c.Advance(10_000_000)
			close(under.arrive)
			second := <-received
			for what, err := range map[string]error{"the reply": first, "the message": second} {
				if wait, _ := grpclimit.RetryAfter(err); wait != time.Minute {
					t.Errorf("%s: got %v, want 1m", what, err)
				}
			}
			return first
		})
		wantCode(t, "the stream", err, codes.ResourceExhausted)
		if under.trailers != 1 {
			t.Errorf("got %d trailers, want 1", under.trailers)
		}
	})
}
