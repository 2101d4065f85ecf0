package grpclimit

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/engine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	id, err := c.holdKeyOf(ctx, method, conn)
	if err != nil {
		return nil, err
	}
	held, err := c.admit(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	s := &clientStream{client: c, held: held, hold: id, ctx: ctx, end: func() {}, oneReply: !desc.ServerStreams}
	if c.decider != nil {
		s.messages = desc.ClientStreams && c.decider.charges(id.method, stageMessage)
		s.replies = desc.ServerStreams && c.decider.charges(id.method, stageReply)
	}
	if s.messages || s.replies {
		s.ctx, s.end = context.WithCancel(ctx)
	}
	if held != nil && held.HoldsSlots() {
		opts = append(slices.Clip(opts), grpc.OnFinish(func(error) { s.finish() }))
	}
	opened := false
	defer func() {
		if !opened { // also if an interceptor inside panicked
			s.finish()
		}
	}()
	if s.ClientStream, err = open(s.ctx, desc, conn, method, opts...); err != nil {
		s.end()
		c.obey(id, err)
		if !s.over.Swap(true) {
			c.settle(ctx, id, held, Result{Err: err})
		}
		return nil, err
	}
	opened = true
	return s, nil
}

// finish is called by gRPC when the call has ended, even if the client has abandoned the stream. It releases the slots,
// unless RecvMsg is running: that call will return how the stream ended, or a last message.
func (s *clientStream) finish() {
	s.finished.Store(true)
	s.release()
}

// release releases the slots of a stream that is no longer received from.
func (s *clientStream) release() {
	if s.receiving.Load() == 0 && !s.over.Swap(true) {
		s.client.release(s.ctx, s.hold, s.held)
	}
}

// clientStream watches a stream for the server's answers, and charges its messages where a policy has PerMessage or
// PerReply.
type clientStream struct {
	grpc.ClientStream
	client   *Client
	hold     holdKey
	messages bool            // charge sent messages
	replies  bool            // charge received messages
	oneReply bool            // the stream ends with the first reply
	ctx      context.Context // of the stream; calling the stream's Context would keep gRPC from retrying
	end      func()          // ends ctx, so that a refusal leaves nothing open
	over     atomic.Bool     // the server has ended the stream
	refused  atomic.Pointer[error]
	held     *engine.Transaction // to be settled when the stream has ended

	receiving atomic.Int32 // running calls of RecvMsg
	finished  atomic.Bool  // gRPC has reported the end
}

// Header returns the header of the server's response.
func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	s.client.obey(s.hold, err)
	return header, err
}

// SendMsg sends a message when the limits admit it.
func (s *clientStream) SendMsg(message any) error {
	if refused := s.refused.Load(); refused != nil {
		return *refused
	}
	if s.messages {
		if err := s.charge(stageMessage, message); err != nil {
			return err
		}
	}
	return s.ClientStream.SendMsg(message)
}

// RecvMsg receives a message, and returns it when the limits admit it.
func (s *clientStream) RecvMsg(message any) error {
	if refused := s.refused.Load(); refused != nil {
		return *refused
	}
	s.receiving.Add(1)
	err := s.ClientStream.RecvMsg(message)
	s.receiving.Add(-1)
	if err != nil || s.oneReply {
		s.client.obey(s.hold, err)
		if !s.over.Swap(true) {
			s.client.settle(s.ctx, s.hold, s.held, s.result(message, err))
		}
		s.end() // the stream has already ended; this releases the context, and a message that waits
		if refused := s.refused.Load(); err != nil && refused != nil {
			return *refused // that is why it ended
		}
		return err
	}
	if s.finished.Load() { // while the message was in flight; RecvMsg may not be called again
		s.release()
	}
	if s.replies {
		return s.charge(stageReply, message)
	}
	return nil
}

// result returns the result of a stream that ended with this message or error.
func (s *clientStream) result(message any, err error) Result {
	if errors.Is(err, io.EOF) {
		return Result{}
	}
	return Result{Reply: message, Err: err}
}

func (s *clientStream) charge(at stage, message any) error {
	_, _, err := s.client.take(s.ctx, s.client.call(s.hold, at, message))
	switch {
	case err == nil:
		return nil
	case s.over.Load():
		return io.EOF // as gRPC does: RecvMsg returns the reason
	}
	s.refused.CompareAndSwap(nil, &err)
	s.end()
	return *s.refused.Load()
}
