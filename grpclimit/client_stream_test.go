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
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/grpclimit"
)

// wire is a stream without a network. It counts sent messages, and receives what the test provides.
type wire struct {
	grpc.ClientStream
	ctx  context.Context
	sent int
	recv chan error // nil is a message
}

func (w *wire) SendMsg(any) error            { w.sent++; return nil }
func (w *wire) Header() (metadata.MD, error) { return nil, <-w.recv }
func (w *wire) RecvMsg(any) error {
	select {
	case err := <-w.recv:
		return err
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

func openWire(t *testing.T, client *grpclimit.Client, desc *grpc.StreamDesc) (grpc.ClientStream, *wire, error) {
	w := &wire{recv: make(chan error, 10)}
	stream, err := client.Stream()(t.Context(), desc, nil, chat,
		func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			w.ctx = ctx
			return w, nil
		})
	return stream, w, err
}

func newClient(t *testing.T, opts grpclimit.ClientOptions, limits ...string) *grpclimit.Client {
	t.Helper()
	client, err := grpclimit.NewClient(newLimiter(t, nil, limits...), opts)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestClientStreamWaitsPerMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, grpclimit.ClientOptions{Wait: true, Policies: []grpclimit.Policy{{PerMessage: true}}}, "2/1m sliding-log")
		start := time.Now()
		stream, w, err := openWire(t, client, &chatDesc)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{0, time.Minute, time.Minute, 2 * time.Minute} {
			wantCode(t, "a message", stream.SendMsg(nil), codes.OK)
			checkElapsed(t, "a message", start, want)
			if w.sent != i+1 {
				t.Errorf("message %d: got %d sent, want %d", i, w.sent, i+1)
			}
		}
		w.recv <- nil
		wantCode(t, "a reply", stream.RecvMsg(nil), codes.OK) // free
		checkElapsed(t, "a reply", start, 2*time.Minute)
		w.recv <- io.EOF
		if err := stream.RecvMsg(nil); !errors.Is(err, io.EOF) || w.ctx.Err() == nil {
			t.Errorf("got %v, and the context's error %v; want io.EOF and a context that has ended", err, w.ctx.Err())
		}
	})
}

// A refusal ends the stream: nothing of it is left open, and it returns the same error from then on.
func TestClientStreamRefused(t *testing.T) {
	client := newClient(t, grpclimit.ClientOptions{Policies: []grpclimit.Policy{{PerMessage: true}}}, "2/1h")
	stream, w, err := openWire(t, client, &chatDesc)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "the first message", stream.SendMsg(nil), codes.OK)
	if w.ctx.Err() != nil {
		t.Fatalf("the context has ended with %v after an admitted message, want it open", w.ctx.Err())
	}
	wantCode(t, "the second", stream.SendMsg(nil), codes.ResourceExhausted)
	if w.ctx.Err() == nil {
		t.Error("the stream is still open after a refusal, want its context ended")
	}
	wantCode(t, "the third", stream.SendMsg(nil), codes.ResourceExhausted)
	wantCode(t, "a reply", stream.RecvMsg(nil), codes.ResourceExhausted)
	if w.sent != 1 {
		t.Errorf("got %d messages sent, want 1", w.sent)
	}
	if _, _, err := openWire(t, client, &chatDesc); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("another stream: got %v, want ResourceExhausted", err)
	}
}

// A reader that waits while a message is refused gets the refusal, not that the stream was canceled.
func TestClientStreamRefusedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, grpclimit.ClientOptions{Policies: []grpclimit.Policy{{PerMessage: true}}}, "1/1h")
		stream, _, err := openWire(t, client, &chatDesc)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error)
		go func() { read <- stream.RecvMsg(nil) }()
		synctest.Wait()
		wantCode(t, "a message", stream.SendMsg(nil), codes.ResourceExhausted)
		wantCode(t, "the reader", <-read, codes.ResourceExhausted)
	})
}

// A message that waits is given up when the server ends the stream, as in gRPC.
func TestClientStreamEndsWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, grpclimit.ClientOptions{Wait: true, Policies: []grpclimit.Policy{{PerMessage: true}}}, "1/1h")
		stream, w, err := openWire(t, client, &chatDesc)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		sent := make(chan error)
		go func() { sent <- stream.SendMsg(nil) }()
		synctest.Wait()
		w.recv <- errDown
		if err := stream.RecvMsg(nil); !errors.Is(err, errDown) {
			t.Errorf("the reader got %v, want %v", err, errDown)
		}
		if err := <-sent; !errors.Is(err, io.EOF) || w.sent != 0 {
			t.Errorf("the sender got %v, want io.EOF", err)
		}
		checkElapsed(t, "all", start, 0)
	})
}

func TestClientStreamPerReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, grpclimit.ClientOptions{Wait: true, Policies: []grpclimit.Policy{{PerReply: true}}}, "2/1m sliding-log")
		start := time.Now()
		stream, w, err := openWire(t, client, &listDesc)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, "the request", stream.SendMsg(nil), codes.OK)
		for _, want := range []time.Duration{0, time.Minute} {
			w.recv <- nil
			wantCode(t, "a reply", stream.RecvMsg(nil), codes.OK)
			checkElapsed(t, "a reply", start, want)
		}
	})
}

// A stream with one reply ends with it.
func TestClientStreamOfOneReply(t *testing.T) {
	policy := grpclimit.Policy{PerReply: true, PerMessage: true}
	client := newClient(t, grpclimit.ClientOptions{Policies: []grpclimit.Policy{policy}}, "2/1h")
	stream, w, err := openWire(t, client, &collectDesc)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a message", stream.SendMsg(nil), codes.OK)
	w.recv <- nil
	wantCode(t, "the reply", stream.RecvMsg(nil), codes.OK)
	if w.ctx.Err() == nil {
		t.Error("the context is still open, want it ended")
	}
}

func TestClientStreamLearns(t *testing.T) {
	for name, receive := range map[string]func(grpc.ClientStream) error{
		"RecvMsg": func(s grpc.ClientStream) error { return s.RecvMsg(nil) },
		"Header":  func(s grpc.ClientStream) error { _, err := s.Header(); return err },
	} {
		client, err := grpclimit.NewClient(nil, grpclimit.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stream, w, err := openWire(t, client, &chatDesc)
		if err != nil {
			t.Fatal(err)
		}
		w.recv <- retryError(time.Hour)
		wantCode(t, name, receive(stream), codes.ResourceExhausted)
		_, _, err = openWire(t, client, &chatDesc)
		wantCode(t, name+": the next", err, codes.ResourceExhausted)
	}
}
