package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
)

// Options are what Interceptors have besides their limiter. The zero value limits every call by the address of whoever is
// connected to the limiter's own limits, and lets calls pass when the store fails.
type Options struct {
	// Policies are what calls face. Of several that match, all admit and all are charged, or none is. If there is none, it
	// is the zero Policy.
	Policies []Policy
	// FailClosed refuses with UNAVAILABLE when the store cannot decide. Otherwise calls pass: an outage of the limiter is
	// then not one of the service.
	FailClosed bool
	// Fallback decides when the store cannot: over a memstore, say, with the same limits. FailClosed says what happens if it
	// fails too.
	Fallback *slidegate.Limiter
	// Timeout is how long a decision may take before it counts as failed; 0 leaves that to the call's context.
	Timeout time.Duration
	// Group names the group of a call's charges, for stores made of several nodes; see slidegate.Claims.InGroup.
	Group func(ctx context.Context, method string) string
	// OnDecision is called with every decision, before the handler. It must be quick and safe for concurrent use.
	OnDecision func(ctx context.Context, event Event)
}

// Event is a decision as OnDecision sees it. No field of it holds a key.
type Event struct {
	// Method is the full name of the method.
	Method string
	// Policy is the name of the policy that decided.
	Policy string
	// Decision is what the limits said. Its flags tell whether the store decided or, because it could not, the options: the
	// fallback (rule.FallbackLocal), let pass (rule.FallbackOpen), refuse (rule.FallbackClosed).
	Decision slidegate.Decision
	// Err is why the store could not decide.
	Err error
	// Held says that no limit decided: a client keeps to what the server has answered before. Decision has only RetryAfter.
	Held bool
	// Shadow says that the policy is only tried out: whatever it decided, it refused nothing.
	Shadow bool
	// Refused says that the call, or the message, was refused. A client's call that waits is not.
	Refused bool
}

// Interceptors limit the calls to a server. They are safe for concurrent use. The zero value is not usable; New makes it.
type Interceptors struct{ gate *gate }

// New returns interceptors for servers over a limiter, or an error that says which option is wrong.
func New(limiter *slidegate.Limiter, opts Options) (*Interceptors, error) {
	if limiter == nil {
		return nil, errors.New("grpclimit: limiter: must not be nil; slidegate.New makes one")
	}
	g := &gate{limiter: limiter, failClosed: opts.FailClosed, fallback: opts.Fallback, timeout: opts.Timeout,
		group: opts.Group, onDecision: opts.OnDecision}
	if err := g.fill(opts.Policies, Address(nil)); err != nil {
		return nil, err
	}
	return &Interceptors{g}, nil
}

// Unary returns the interceptor of calls with one request and one response.
func (i *Interceptors) Unary() grpc.UnaryServerInterceptor { return i.unary }

// Stream returns the interceptor of calls with streams. A stream is charged when it opens, and again for its messages if
// a policy says so.
func (i *Interceptors) Stream() grpc.StreamServerInterceptor { return i.stream }

func (i *Interceptors) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	q := question{method: info.FullMethod, message: request}
	if no := i.gate.admit(ctx, &q); no != nil {
		_ = grpc.SetTrailer(ctx, no.trailer()) // it fails only where there is no connection to send it on
		return nil, no.status.Err()
	}
	return handler(ctx, request)
}

func (i *Interceptors) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	q := question{method: info.FullMethod}
	if no := i.gate.admit(stream.Context(), &q); no != nil {
		stream.SetTrailer(no.trailer())
		return no.status.Err()
	}
	messages := info.IsClientStream && i.gate.charges(info.FullMethod, stageMessage)
	replies := info.IsServerStream && i.gate.charges(info.FullMethod, stageReply)
	if messages || replies {
		stream = &serverStream{ServerStream: stream, gate: i.gate, method: info.FullMethod, messages: messages, replies: replies}
	}
	return handler(service, stream)
}

// pushbackField is the trailer by which gRPC's retry design has servers say when to try again, in whole milliseconds, or
// not to.
const pushbackField = "grpc-retry-pushback-ms"

// trailer returns the metadata that goes with a refusal.
func (r *refusal) trailer() metadata.MD {
	if r.pushback == "" {
		return nil
	}
	return metadata.MD{pushbackField: {r.pushback}}
}
