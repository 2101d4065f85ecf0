package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/blocks"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ClientOptions configures a Client. The zero value is valid: it limits all calls to one target together, refuses
// immediately what may not be sent yet, and sends calls unlimited when the store fails.
type ClientOptions struct {
	// Policies apply to calls before they are sent. Of several that match, all admit and all are charged, or none is.
	// If empty, the zero Policy applies.
	Policies []Policy
	// Key identifies on whose behalf a call is made, where a client acts for several: by the token it sends, for
	// example. A server's answer to one applies only to that one, and policies without their own key count by it. nil
	// means that the client acts for itself, and policies count by the target of the connection.
	Key Key
	// Wait delays a call until it may be sent, for as long as its context allows; a call without a deadline waits as
	// long as necessary. If the wait would outlast the context's deadline, or never end, the call is refused
	// immediately. Without Wait everything that may not be sent now is refused immediately. In one process, waiting calls with the
	// same key are sent in the order in which they came. A call waits once, before it is sent: the Client never sends it again, since only
	// the service config (retryPolicy) says which calls may be repeated.
	Wait bool
	// MaxObey is the longest time that a server can stop the calls of a key by one answer; longer delays are cut to
	// this. It keeps a faulty or hostile server from stopping the client for good. 0 means an hour.
	MaxObey time.Duration
	// Failure decides calls that the store does not answer. With store.FailLocal, the default, the same limits decide, counted
	// in this process; store.FailOpen sends all calls, since the server has its own limits. See Options.Failure.
	Failure store.Mode
	// Timeout is how long a decision may take, not including the wait; see Options.Timeout.
	Timeout time.Duration
	// Group returns the group of a call's charges, for stores made of several nodes; see slidegate.Claims.InGroup.
	Group func(ctx context.Context, method string) string
	// OnDecision is called with every decision. That on a call that waited says how long; where refusals count, it is called for each
	// attempt. It must be quick and safe for concurrent use. nil disables it.
	OnDecision func(ctx context.Context, event Event)
}

// Client limits the calls that a client makes. It obeys its own limit, and the answers of servers: after
// RESOURCE_EXHAUSTED with a RetryInfo, further calls of the same method, target and key wait until that time or are
// refused, and are not sent. A call is limited once, however often gRPC itself retries it.
//
// It is safe for concurrent use; all connections to the same servers should share one. The zero value is not usable;
// call NewClient.
type Client struct {
	decider    *decider // nil if it has no limits
	key        Key
	wait       bool
	onDecision func(context.Context, Event)
	holds      *blocks.Blocks[holdKey]
	maxObey    time.Duration // the longest wait of one answer
}

// NewClient returns interceptors for clients over a limiter. An error names the option that is wrong. With a nil
// limiter the client obeys only the answers of servers.
func NewClient(limiter *slidegate.Limiter, opts ClientOptions) (*Client, error) {
	c := &Client{key: opts.Key, wait: opts.Wait, onDecision: opts.OnDecision}
	if opts.MaxObey < 0 {
		return nil, fmt.Errorf("grpclimit: max obey: must not be negative, got %v", opts.MaxObey)
	}
	c.holds, c.maxObey = blocks.New[holdKey](maxHolds), cmp.Or(opts.MaxObey, time.Hour)
	if limiter == nil {
		if err := checkWithoutLimiter(opts); err != nil {
			return nil, err
		}
		return c, nil
	}
	var err error
	if c.decider, err = newDecider(limiter, opts.Policies, Key{Form: opts.Key.Form}, engine.Options{Failure: opts.Failure, Timeout: opts.Timeout}, false, opts.Group != nil); err != nil {
		return nil, err
	}
	c.decider.group, c.decider.onDecision = opts.Group, opts.OnDecision
	return c, nil
}

// checkWithoutLimiter rejects options that have no effect without a limiter, which was probably forgotten.
func checkWithoutLimiter(opts ClientOptions) error {
	if len(opts.Policies) > 0 || opts.Failure != 0 {
		return errors.New("grpclimit: limiter: must not be nil with Policies or Failure; use slidegate.New")
	}
	if opts.Timeout != 0 {
		return fmt.Errorf("grpclimit: timeout: %v has no effect without a limiter; leave it out", opts.Timeout)
	}
	return nil
}

// Drain waits until the slots of calls that have ended are released, or ctx ends; see Interceptors.Drain.
func (c *Client) Drain(ctx context.Context) error {
	if c.decider == nil {
		return nil
	}
	return withPackage(c.decider.set.Drain(ctx))
}

// Unary returns the interceptor of calls with one request and one response.
func (c *Client) Unary() grpc.UnaryClientInterceptor { return c.unary }

// Stream returns the interceptor of calls with streams. A stream is charged when it opens, and again for its messages
// if a policy has PerMessage or PerReply.
func (c *Client) Stream() grpc.StreamClientInterceptor { return c.stream }

func (c *Client) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	id, err := c.holdKeyOf(ctx, method, conn)
	if err != nil {
		return err
	}
	held, err := c.admit(ctx, id, request)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // an interceptor inside panicked, and the actual cost is unknown
			c.release(ctx, id, held)
		}
	}()
	err = invoke(ctx, method, request, reply, conn, opts...)
	ended = true
	c.obey(id, err)
	c.settle(ctx, id, held, Result{Reply: reply, Err: err})
	return err
}

// release releases the slots of a call that ended without a result, and keeps what it took.
func (c *Client) release(ctx context.Context, id holdKey, held *engine.Transaction) {
	if held != nil {
		held.Finish(ctx, nil, c.decider.reportUnsettled(ctx, id.method, ""))
	}
}

// settle charges the actual cost of a call, if a policy has a CostAfter.
func (c *Client) settle(ctx context.Context, id holdKey, held *engine.Transaction, result Result) {
	if held == nil {
		return
	}
	if result.Err != nil {
		result.Reply = nil
	}
	c.decider.settle(ctx, c.call(id, stageCall, nil), held, result)
}

// holdKeyOf returns what a server's answer to a call applies to. If the client's Key fails, the call is refused.
func (c *Client) holdKeyOf(ctx context.Context, method string, conn *grpc.ClientConn) (id holdKey, err error) {
	id = holdKey{method: fullMethod(method)}
	if conn != nil { // there is none where a test calls the interceptor directly
		id.target = conn.Target()
	}
	if !c.key.IsZero() {
		if id.key, err = c.key.Of(keyCall{ctx, id.method}); err != nil {
			return id, status.Errorf(codes.Unavailable, "grpclimit: not sent: key: %v", err)
		}
	}
	return id, nil
}

// call returns the call to decide for id.
func (c *Client) call(id holdKey, at stage, message any) *call {
	made := &call{method: id.method, key: id.target, stage: at, message: message}
	if !c.key.IsZero() {
		made.key = id.key
	}
	return made
}

// admit waits until a call may be sent, or refuses it. The server's earlier answers are checked before a unit is taken,
// and once more after the wait for it; a call that is refused then returns its units. admit returns the request to
// settle when the call has ended, if any.
func (c *Client) admit(ctx context.Context, id holdKey, message any) (*engine.Transaction, error) {
	if err := c.awaitHold(ctx, id); err != nil || c.decider == nil {
		return nil, err
	}
	held, waited, err := c.take(ctx, c.call(id, stageCall, message))
	if err != nil || !waited {
		return held, err
	}
	if err = c.awaitHold(ctx, id); err != nil {
		c.giveBack(ctx, id, held)
		return nil, err
	}
	return held, nil
}

// giveBack returns the units of a call that is not sent.
func (c *Client) giveBack(ctx context.Context, id holdKey, held *engine.Transaction) {
	if held == nil {
		return
	}
	held.Finish(ctx, func(int, int64) int64 { return 0 }, c.decider.reportUnsettled(ctx, id.method, ""))
}

// awaitHold waits as long as the server asked for, or refuses.
func (c *Client) awaitHold(ctx context.Context, id holdKey) error {
	for {
		left, _ := c.holds.Find(id, time.Now())
		if left == 0 {
			return nil
		}
		refused := !c.wait || !lastsLonger(ctx, left)
		if c.onDecision != nil {
			event := Event{Method: id.method, Held: true}
			event.Refused = refused
			event.Decision.RetryAfter = left
			c.onDecision(ctx, event)
		}
		if refused {
			return exhaustedRefusal("grpclimit: not sent: the server asked to wait", left).status.Err()
		}
		if err := pause(ctx, left); err != nil {
			return err
		}
	}
}

// take takes a call's units when they are free. It reports whether it had to wait.
func (c *Client) take(ctx context.Context, what *call) (held *engine.Transaction, waited bool, err error) {
	d := c.decider
	var buffer [4]*compiled
	matching := d.matching(ctx, what, buffer[:0])
	if len(matching) == 0 {
		return nil, false, nil
	}
	r := d.begin(ctx, what, matching, c.wait)
	defer func() {
		if held == nil {
			r.End()
		}
	}()
	// Where refused requests count, a call does not wait in line, and must not take before its time: each refusal would postpone it.
	peeks := c.wait && r.CountsRefused()
	if c.wait && what.stage == stageCall {
		r.HoldAll() // for admit, which may have to return what a call takes after a wait
	}
	for ; ; waited = true {
		if err := ctx.Err(); err != nil { // a caller that has left must not take anything
			return nil, waited, status.FromContextError(err).Err()
		}
		var event Event
		c.decide(ctx, what, r, peeks, &event)
		waited = waited || event.Waited >= time.Millisecond
		wait := event.Refused && c.mayWait(ctx, &event.Decision)
		event.Refused = event.Refused && !wait
		d.reportAll(ctx, r, &event)
		switch {
		case event.Refused:
			return nil, waited, refuse(ctx, &event.Decision).status.Err()
		case !wait && r.Held():
			d.renewSlots(ctx, what, r)
			return r, waited, nil
		case !wait:
			return nil, waited, nil
		}
		if err := pause(ctx, retryDelay(&event.Decision)); err != nil {
			return nil, waited, err
		}
	}
}

// decide decides a call, after a peek if necessary.
func (c *Client) decide(ctx context.Context, what *call, r *engine.Transaction, peeks bool, event *Event) {
	if peeks {
		if c.decider.decide(ctx, what, r, rule.Peek, event); event.Refused || event.Decision.Flags&rule.FallbackOpen != 0 {
			return
		}
	}
	c.decider.decide(ctx, what, r, rule.Take, event)
}

// mayWait reports whether a refused call should wait.
func (c *Client) mayWait(ctx context.Context, v *policy.Decision) bool {
	return c.wait && v.By == policy.ByLimits && !v.Mistake && !v.Ended && v.Decision.RetryAfter != slidegate.Never &&
		v.Decision.Flags&rule.FallbackClosed == 0 && lastsLonger(ctx, retryDelay(v))
}

// slotPoll is how often a call that waits for a slot tries again.
const slotPoll = 50 * time.Millisecond

// retryDelay returns how long a refused call should wait before it tries again. A slot of an in-flight limit may be
// released at any time before RetryAfter.
func retryDelay(v *policy.Decision) time.Duration {
	d := &v.Decision
	if int(d.Index) < len(v.Limits) && v.Limits[d.Index].Algorithm == slidegate.InFlight {
		return min(d.RetryAfter, slotPoll)
	}
	return d.RetryAfter
}

// lastsLonger reports whether ctx lasts longer than d.
func lastsLonger(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > d
}

// pause sleeps for d, or returns the status of the context if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	if blocks.Pause(ctx, d) != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}
