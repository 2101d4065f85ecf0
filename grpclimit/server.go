package grpclimit

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// Options configures Interceptors. The zero value is valid: it limits every call by the address of its connection to
// the limiter's own limits, and counts in this process while the store does not answer.
type Options struct {
	// Policies apply to calls. Of several that match, all admit and all are charged, or none is. If empty, the zero
	// Policy applies.
	Policies []Policy
	// Failure decides calls that the store does not answer. With store.FailLocal, the default, the same limits decide, counted
	// in this process: while the store is away, N processes together admit up to N quotas, or about one if Instances is N.
	// store.FailClosed refuses with UNAVAILABLE, which is right for logins; store.FailOpen admits everything. A refusal that this process has seen stays
	// one. A store that does not answer is not called for a while; see package layer/stack. If the limiter's store already
	// has that layer, the layer decides by this mode, or by its own default if Failure is 0, and the options below have no
	// effect.
	Failure store.Mode
	// Timeout is how long a decision may take before the failure mode decides. 0 means 100ms for a store with round trips; a
	// store in process is called without a deadline. Negative means that the store has no layers: every
	// request calls it, without a deadline, and after an error store.FailOpen admits the request and all other modes refuse it.
	Timeout time.Duration
	// LocalBytes is the maximum memory of store.FailLocal in this process; 0 means the default of memstore.Options.
	LocalBytes int64
	// Instances is how many processes share the limits, by which store.FailLocal divides their quotas; 0 means 1.
	Instances int
	// Client finds the client's address, for policies without a Key, where a Key is empty, and for lists of addresses.
	// nil trusts no proxy and uses the address of the connection.
	Client *clientip.Source
	// SendRemaining writes what is left to the header metadata of calls, and to the trailer of calls that are refused:
	// the fields ratelimit and ratelimit-policy, like the HTTP header fields RateLimit and RateLimit-Policy.
	SendRemaining bool
	// Group returns the group of a call's charges, for stores made of several nodes; see slidegate.Claims.InGroup.
	Group func(ctx context.Context, method string) string
	// OnDecision is called with every decision, before the handler: once for each policy that admitted a call, or once for
	// each that refused it. It is also called with the errors of settling and of releasing slots
	// after it, and with those of renewing slots while it runs. It must be quick and safe for concurrent use. nil
	// disables it.
	OnDecision func(ctx context.Context, event Event)
}

// Event is a decision as passed to OnDecision. No field contains a key.
type Event struct {
	policy.Decision
	// Method is the full name of the method.
	Method string
	// Held reports whether a client obeyed an earlier answer of the server, and no limit decided. Decision then has only
	// RetryAfter.
	Held bool
}

// Interceptors limit the calls to a server. They are safe for concurrent use. The zero value is not usable; call New.
type Interceptors struct {
	decider *decider
}

// New returns interceptors for servers over a limiter. An error names the option that is wrong.
func New(limiter *slidegate.Limiter, opts Options) (*Interceptors, error) {
	if limiter == nil {
		return nil, errors.New("grpclimit: limiter: must not be nil; use slidegate.New")
	}
	d, err := newDecider(limiter, opts.Policies, ByAddress(opts.Client), engine.Options{
		Failure: opts.Failure, Timeout: opts.Timeout, LocalBytes: opts.LocalBytes, Instances: opts.Instances,
	}, opts.SendRemaining, opts.Group != nil)
	if err != nil {
		return nil, err
	}
	d.client, d.group, d.onDecision = opts.Client, opts.Group, opts.OnDecision
	return &Interceptors{decider: d}, nil
}

// Drain waits until the slots of calls that have ended are released, or ctx ends. Call it before the program ends,
// after grpc.Server.GracefulStop: with a store that has round trips, a slot is released after the response was sent.
// Slots that are not released expire after their time to live. It also returns leased units.
func (i *Interceptors) Drain(ctx context.Context) error { return withPackage(i.decider.set.Drain(ctx)) }

// Unary returns the interceptor of calls with one request and one response.
func (i *Interceptors) Unary() grpc.UnaryServerInterceptor {
	return i.unary
}

// Stream returns the interceptor of calls with streams. A stream is charged when it opens, and again for its messages
// if a policy has PerMessage or PerReply.
func (i *Interceptors) Stream() grpc.StreamServerInterceptor {
	return i.stream
}

func (i *Interceptors) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	c := call{method: fullMethod(info.FullMethod), message: request}
	refused, held, left := i.decider.admit(ctx, &c)
	// Setting metadata fails only without a connection to send it on.
	if refused != nil {
		_ = grpc.SetTrailer(ctx, refused.trailer())
		return nil, refused.status.Err()
	}
	if left != nil {
		_ = grpc.SetHeader(ctx, left)
	}
	if held != nil {
		result := Result{Err: errPanicked}
		defer func() { i.decider.settle(ctx, &c, held, result) }()
		reply, err = handler(ctx, request)
		result = Result{Reply: reply, Err: err}
		return reply, err
	}
	return handler(ctx, request)
}

// fullMethod returns the name of a method with its leading slash. Some versions of gRPC serve a stream that is called
// without the slash and pass the name on unchanged, and that must not be a way around a Match.
func fullMethod(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return "/" + name
}

// errPanicked is the error of a call whose handler panicked.
var errPanicked = status.Error(codes.Internal, "grpclimit: the handler panicked")

func (i *Interceptors) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	c := call{method: fullMethod(info.FullMethod)}
	refused, held, left := i.decider.admit(stream.Context(), &c)
	if refused != nil {
		stream.SetTrailer(refused.trailer())
		return refused.status.Err()
	}
	if left != nil {
		_ = stream.SetHeader(left)
	}
	messages := info.IsClientStream && i.decider.charges(c.method, stageMessage)
	replies := info.IsServerStream && i.decider.charges(c.method, stageReply)
	if messages || replies {
		stream = &serverStream{ServerStream: stream, decider: i.decider, method: c.method, messages: messages, replies: replies}
	}
	if held != nil {
		result := Result{Err: errPanicked}
		defer func() { i.decider.settle(stream.Context(), &c, held, result) }()
		err = handler(service, stream)
		result.Err = err
		return err
	}
	return handler(service, stream)
}

// pushbackField is the trailer in which gRPC's retry design lets servers send when to try again, in whole milliseconds,
// or not to.
const pushbackField = "grpc-retry-pushback-ms"

// trailer returns the metadata that goes with a refusal.
func (r *refusal) trailer() metadata.MD {
	md := r.left
	if r.pushback != "" {
		md = metadata.Join(md, metadata.MD{pushbackField: {r.pushback}})
	}
	return md
}
