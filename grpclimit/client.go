package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// ClientOptions configure a Client. The zero value limits all calls to one target together, refuses at once what may
// not be sent yet, and sends calls unlimited when the store fails.
type ClientOptions struct {
	// Policies are what calls face before they are sent. Of several that match, all admit and all are charged, or none is.
	// If there is none, it is the zero Policy.
	Policies []Policy
	// Key says on whose behalf a call is made, where a client acts for several: by the token it sends along, say. What a
	// server answers to one holds for this one alone, and policies without a key of their own count by it. nil means that
	// the client acts for itself, and policies count by the target of the connection.
	Key Key
	// Wait holds a call back until it may be sent, for as long as its context allows; one without a deadline waits as long as
	// it takes. When the wait would outlast the context's deadline, or never end, the call is refused at once. Without Wait
	// everything that may not be sent now is refused at once. Waiting calls are not served in FIFO order.
	Wait bool
	// MaxObey is how long a server can stop the calls of a key by one answer; what asks for more is taken as this. It keeps a
	// server that is wrong, or hostile, from stopping us for good. 0 means an hour.
	MaxObey time.Duration
	// Failure is what happens to calls that the store cannot decide: policy.Open, the default, sends them, for the server has
	// its own limits; policy.Closed refuses them with UNAVAILABLE; policy.Local counts them in this process meanwhile; policy.Optimistic
	// admits a few of each key and charges them when the store is back. See Options.Failure.
	Failure policy.Mode
	// Optimism is how many units of a key policy.Optimistic admits; see Options.Optimism.
	Optimism int64
	// Timeout is how long a decision may take before it counts as failed, not including the wait for its turn. 0 means 100ms
	// for a store with round trips; a store in process is asked without a deadline. Negative means no deadline.
	Timeout time.Duration
	// Group names the group of a call's charges, for stores made of several nodes; see slidegate.Claims.InGroup.
	Group func(ctx context.Context, method string) string
	// OnDecision is called with every decision, several times for a call that waits. It must be quick and safe for
	// concurrent use.
	OnDecision func(ctx context.Context, event Event)
}

// Client limits the calls that a client makes. It keeps to a limit of its own, and to what servers answer: after
// RESOURCE_EXHAUSTED with a RetryInfo, further calls of the same method, target and key wait until that time or are refused,
// and are not sent. A call is limited once, however often gRPC sends it again by itself.
//
// It is safe for concurrent use; all connections to the same servers should share one. The zero value is not usable;
// NewClient makes it.
type Client struct {
	decider *decider // nil if it has no limit of its own
	key     Key
	wait    bool
	tell    func(context.Context, Event)
	holds   holds
}

// NewClient returns interceptors for clients over a limiter, or an error that says which option is wrong. With a nil
// limiter the client keeps only to what servers answer.
func NewClient(limiter *slidegate.Limiter, opts ClientOptions) (*Client, error) {
	c := &Client{key: opts.Key, wait: opts.Wait, tell: opts.OnDecision}
	if opts.MaxObey < 0 {
		return nil, fmt.Errorf("grpclimit: max obey: must not be negative, it is %v", opts.MaxObey)
	}
	c.holds.most = cmp.Or(opts.MaxObey, time.Hour)
	if limiter == nil {
		if err := checkWithoutLimiter(opts); err != nil {
			return nil, err
		}
		return c, nil
	}
	var err error
	if c.decider, err = newDecider(limiter, opts.Policies, nil, policy.Options{Failure: opts.Failure, Timeout: opts.Timeout, Optimism: opts.Optimism}, false, opts.Group != nil); err != nil {
		return nil, err
	}
	c.decider.group, c.decider.onDecision = opts.Group, opts.OnDecision
	return c, nil
}

// checkWithoutLimiter refuses options that have no effect without a limiter, which was probably forgotten.
func checkWithoutLimiter(opts ClientOptions) error {
	if len(opts.Policies) > 0 || opts.Failure != 0 {
		return errors.New("grpclimit: limiter: must not be nil where there are Policies or a Failure; slidegate.New makes one")
	}
	if opts.Timeout != 0 {
		return fmt.Errorf("grpclimit: timeout: is %v, and without a limiter there is nothing to decide in time", opts.Timeout)
	}
	return nil
}

// Drain waits until the slots of calls that have ended are released, or ctx ends; see Interceptors.Drain.
func (c *Client) Drain(ctx context.Context) error {
	if c.decider == nil {
		return nil
	}
	return prefixed(c.decider.set.Drain(ctx))
}

// Unary returns the interceptor of calls with one request and one response.
func (c *Client) Unary() grpc.UnaryClientInterceptor { return c.unary }

// Stream returns the interceptor of calls with streams. A stream is charged when it opens, and again for its messages if
// a policy says so.
func (c *Client) Stream() grpc.StreamClientInterceptor { return c.stream }

func (c *Client) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	who := c.who(ctx, method, conn)
	held, err := c.enter(ctx, who, request)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // an interceptor inside panicked, and what it cost is not known
			c.leave(ctx, who, held)
		}
	}()
	err = invoke(ctx, method, request, reply, conn, opts...)
	ended = true
	c.holds.learn(who, err)
	c.settle(ctx, who, held, Result{Reply: reply, Err: err})
	return err
}

// leave releases the slots of a call that ended without a result, and leaves what it took as it is.
func (c *Client) leave(ctx context.Context, who holder, held *policy.Request) {
	if held != nil {
		held.Finish(ctx, nil, c.decider.unsettled(ctx, who.method, ""))
	}
}

// settle charges the actual cost of a call, if a policy has a CostAfter.
func (c *Client) settle(ctx context.Context, who holder, held *policy.Request, result Result) {
	if held == nil {
		return
	}
	if result.Err != nil {
		result.Reply = nil
	}
	c.decider.settle(ctx, c.call(who, stageCall, nil), held, result)
}

// who returns what a server's answer to a call will hold for.
func (c *Client) who(ctx context.Context, method string, conn *grpc.ClientConn) holder {
	who := holder{method: fullMethod(method)}
	if conn != nil { // there is none where a test calls the interceptor by itself
		who.target = conn.Target()
	}
	if c.key != nil {
		who.key = c.key(ctx, who.method)
	}
	return who
}

// call returns the call to decide for who.
func (c *Client) call(who holder, at stage, message any) *call {
	made := &call{method: who.method, key: who.target, stage: at, message: message}
	if c.key != nil {
		made.key = who.key
	}
	return made
}

// enter waits until a call may be sent, or refuses it. What the server has answered is looked at before a unit is taken,
// and once more after the wait for it; a call that is refused then gives its units back. It returns what has to be settled
// when the call has ended, if anything.
func (c *Client) enter(ctx context.Context, who holder, message any) (*policy.Request, error) {
	if err := c.keepHold(ctx, who); err != nil || c.decider == nil {
		return nil, err
	}
	held, waited, err := c.take(ctx, c.call(who, stageCall, message))
	if err != nil || !waited {
		return held, err
	}
	if err = c.keepHold(ctx, who); err != nil {
		c.giveBack(ctx, who, held)
		return nil, err
	}
	return held, nil
}

// giveBack gives the units of a call back that is not sent.
func (c *Client) giveBack(ctx context.Context, who holder, held *policy.Request) {
	if held == nil {
		return
	}
	held.Finish(ctx, func(int, int64) int64 { return 0 }, c.decider.unsettled(ctx, who.method, ""))
}

// keepHold waits as long as the server asked who to wait, or refuses.
func (c *Client) keepHold(ctx context.Context, who holder) error {
	for {
		left := c.holds.left(who)
		if left == 0 {
			return nil
		}
		refused := !c.wait || !inTime(ctx, left)
		if c.tell != nil {
			event := Event{Method: who.method, Held: true}
			event.Refused = refused
			event.Decision.RetryAfter = left
			c.tell(ctx, event)
		}
		if refused {
			return exhausted("grpclimit: not sent: the server asked to wait", left).status.Err()
		}
		if err := pause(ctx, left); err != nil {
			return err
		}
	}
}

// take takes a call's units, when their turn has come. It reports whether it had to wait.
func (c *Client) take(ctx context.Context, what *call) (held *policy.Request, waited bool, err error) {
	d := c.decider
	var room [4]*compiled
	facing := d.facing(ctx, what, room[:0])
	if len(facing) == 0 {
		return nil, false, nil
	}
	r := d.begin(ctx, what, facing)
	defer func() {
		if held == nil {
			r.End()
		}
	}()
	// Where refusals count, a waiting call must not take before its turn: each refusal would put that off.
	peeks := c.wait && r.CountsDenied()
	for ; ; waited = true {
		if err := ctx.Err(); err != nil { // a caller that has gone away must not take anything
			return nil, waited, status.FromContextError(err).Err()
		}
		var event Event
		c.ask(ctx, what, r, peeks, &event)
		wait := event.Refused && c.mayWait(ctx, &event.Verdict)
		event.Refused = event.Refused && !wait
		d.tell(ctx, &event)
		switch {
		case event.Refused:
			return nil, waited, refuse(ctx, &event.Verdict).status.Err()
		case !wait && r.Held():
			d.keep(ctx, what, r)
			return r, waited, nil
		case !wait:
			return nil, waited, nil
		}
		if err := pause(ctx, untilFree(&event.Verdict)); err != nil {
			return nil, waited, err
		}
		if what.stage == stageCall {
			r.HoldAll() // for enter, which may have to give back what a call takes after a wait
		}
	}
}

// ask decides a call, after a peek if there has to be one.
func (c *Client) ask(ctx context.Context, what *call, r *policy.Request, peeks bool, event *Event) {
	if peeks {
		if c.decider.decide(ctx, what, r, rule.Peek, event); event.Refused || event.Decision.Flags&rule.FallbackOpen != 0 {
			return
		}
	}
	c.decider.decide(ctx, what, r, rule.Take, event)
}

// mayWait reports whether a refused call should wait.
func (c *Client) mayWait(ctx context.Context, v *policy.Verdict) bool {
	return c.wait && v.By == policy.ByLimits && !v.Mistake() && !v.Ended() && !v.Decision.Never() &&
		v.Decision.Flags&rule.FallbackClosed == 0 && inTime(ctx, untilFree(v))
}

// slotPoll is how often a call that waits for a slot asks again.
const slotPoll = 50 * time.Millisecond

// untilFree returns how long a refused call should wait before it asks again. A slot of an in-flight limit may be released at any
// time before RetryAfter.
func untilFree(v *policy.Verdict) time.Duration {
	d := &v.Decision
	if int(d.Index) < len(v.Limits) && v.Limits[d.Index].Algorithm == slidegate.InFlight {
		return min(d.RetryAfter, slotPoll)
	}
	return d.RetryAfter
}

// inTime reports whether there is anything left of a context after d.
func inTime(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > d
}

// pause sleeps for d, or returns the status of the context if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
