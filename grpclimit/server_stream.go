package grpclimit

import (
	"sync/atomic"

	"google.golang.org/grpc"
)

// serverStream charges the messages of a stream. After a refusal nothing passes any more: a handler that continued would
// send the client another retry time with each message.
type serverStream struct {
	grpc.ServerStream
	decider  *decider
	method   string
	messages bool // charge received messages
	replies  bool // charge sent messages
	refused  atomic.Pointer[refusal]
}

// RecvMsg receives a message, and returns it if the limits admit it.
func (s *serverStream) RecvMsg(message any) error {
	if refused := s.refused.Load(); refused != nil {
		return refused.status.Err()
	}
	if err := s.ServerStream.RecvMsg(message); err != nil || !s.messages {
		return err
	}
	return s.charge(stageMessage, message)
}

// SendMsg sends a message if the limits admit it.
func (s *serverStream) SendMsg(message any) error {
	if refused := s.refused.Load(); refused != nil {
		return refused.status.Err()
	}
	if s.replies {
		if err := s.charge(stageReply, message); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(message)
}

func (s *serverStream) charge(at stage, message any) error {
	refused, _, _ := s.decider.admit(s.Context(), &call{method: s.method, stage: at, message: message})
	if refused == nil {
		return nil
	}
	if s.refused.CompareAndSwap(nil, refused) { // otherwise the other direction was refused first, and the client gets that refusal
		s.SetTrailer(refused.trailer())
	}
	return s.refused.Load().status.Err()
}
