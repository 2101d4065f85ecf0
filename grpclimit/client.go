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
)

// ClientOptions are what a Client has besides its limiter. The zero value limits all calls to one target together,
// refuses at once what may not be sent yet, and sends calls unlimited when the store fails.
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
	// everything that may not be sent now is refused at once. Who waits is not served in order of arrival.
	Wait bool
	// MaxObey is how long a server can stop the calls of a key by one answer; what asks for more is taken as this. It keeps a
	// server that is wrong, or hostile, from stopping us for good. 0 means an hour.
	MaxObey time.Duration
	// FailClosed refuses with UNAVAILABLE when the store cannot decide. Otherwise calls are sent: the server has its own
	// limits.
	FailClosed bool
	// Fallback decides when the store cannot: over a memstore, say, with the same limits. FailClosed says what happens if it
	// fails too.
	Fallback *slidegate.Limiter
	// Timeout is how long a decision may take before it counts as failed, waiting for one's turn not included; 0 leaves that
	// to the call's context.
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
	gate  *gate // nil if it has no limit of its own
	key   Key
	wait  bool
	tell  func(context.Context, Event)
	holds holds
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
	c.gate = &gate{limiter: limiter, failClosed: opts.FailClosed, fallback: opts.Fallback, timeout: opts.Timeout,
		group: opts.Group, onDecision: opts.OnDecision}
	if err := c.gate.fill(opts.Policies, nil); err != nil {
		return nil, err
	}
	return c, nil
}

// checkWithoutLimiter refuses options that mean nothing without a limiter, for whoever sets them has forgotten it.
func checkWithoutLimiter(opts ClientOptions) error {
	if len(opts.Policies) > 0 || opts.Fallback != nil || opts.FailClosed {
		return errors.New("grpclimit: limiter: must not be nil where there are Policies, a Fallback or FailClosed; slidegate.New makes one")
	}
	if opts.Timeout != 0 {
		return fmt.Errorf("grpclimit: timeout: is %v, and without a limiter there is nothing to decide in time", opts.Timeout)
	}
	return nil
}

// Unary returns the interceptor of calls with one request and one response.
func (c *Client) Unary() grpc.UnaryClientInterceptor { return c.unary }

// Stream returns the interceptor of calls with streams. A stream is charged when it opens, and again for its messages if
// a policy says so.
func (c *Client) Stream() grpc.StreamClientInterceptor { return c.stream }

func (c *Client) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	who := c.who(ctx, method, conn)
	if err := c.enter(ctx, who, request); err != nil {
		return err
	}
	err := invoke(ctx, method, request, reply, conn, opts...)
	c.holds.learn(who, err)
	return err
}

// who returns what a server's answer to a call will hold for.
func (c *Client) who(ctx context.Context, method string, conn *grpc.ClientConn) holder {
	who := holder{method: method}
	if conn != nil { // there is none where a test calls the interceptor by itself
		who.target = conn.Target()
	}
	if c.key != nil {
		who.key = c.key(ctx, method)
	}
	return who
}

// question returns what is to be decided about a call of who.
func (c *Client) question(who holder, at stage, message any) *question {
	q := &question{method: who.method, key: who.target, stage: at, message: message}
	if c.key != nil {
		q.key = who.key
	}
	return q
}

// enter waits until a call may be sent, or refuses it. What the server has answered is looked at before a unit is taken,
// so that none is lost on a call that is not sent, and once more after the wait for it.
func (c *Client) enter(ctx context.Context, who holder, message any) error {
	if err := c.keepHold(ctx, who); err != nil {
		return err
	}
	if c.gate == nil {
		return nil
	}
	waited, err := c.take(ctx, c.question(who, stageCall, message))
	if err != nil || !waited {
		return err
	}
	return c.keepHold(ctx, who)
}

// keepHold waits as long as the server has told who to, or refuses.
func (c *Client) keepHold(ctx context.Context, who holder) error {
	for {
		left := c.holds.left(who)
		if left == 0 {
			return nil
		}
		refused := !c.wait || !inTime(ctx, left)
		if c.tell != nil {
			event := Event{Method: who.method, Held: true, Refused: refused}
			event.Decision.RetryAfter = left
			c.tell(ctx, event)
		}
		if refused {
			return exhausted("grpclimit: not sent: the server has told to wait", left).status.Err()
		}
		if err := pause(ctx, left); err != nil {
			return err
		}
	}
}

// take takes a question's units, when their turn has come. It tells whether it had to wait.
func (c *Client) take(ctx context.Context, q *question) (waited bool, err error) {
	g := c.gate
	if g.shadows {
		g.tryShadows(ctx, q)
	}
	var room [4]part
	parts := g.parts(ctx, q, room[:0])
	if len(parts) == 0 {
		return false, nil
	}
	for ; ; waited = true {
		if err := ctx.Err(); err != nil { // whoever has gone away must not take anything
			return waited, status.FromContextError(err).Err()
		}
		event := c.ask(ctx, q, parts)
		d := &event.Decision
		wait := !d.Allowed && c.mayWait(ctx, d)
		event.Refused = !d.Allowed && !wait
		g.tell(ctx, &event)
		switch {
		case event.Refused:
			return waited, refuse(ctx, parts, d).status.Err()
		case !wait:
			return waited, nil
		}
		if err := pause(ctx, d.RetryAfter); err != nil {
			return waited, err
		}
	}
}

// ask decides a question. Where refusals count, who waits must not ask for real before it is its turn, for each refusal
// would put that off.
func (c *Client) ask(ctx context.Context, q *question, parts []part) Event {
	if c.wait && countsDenied(parts) {
		event := c.gate.decide(ctx, q, parts, true)
		if !event.Decision.Allowed || event.Decision.Flags.FallbackOpen() {
			return event
		}
	}
	return c.gate.decide(ctx, q, parts, false)
}

func countsDenied(parts []part) bool {
	for i := range parts {
		for _, limit := range parts[i].limits {
			if limit.CountDenied {
				return true
			}
		}
	}
	return false
}

// mayWait tells whether a refused call is to wait.
func (c *Client) mayWait(ctx context.Context, d *slidegate.Decision) bool {
	return c.wait && !d.Never() && !d.Flags.FallbackClosed() && inTime(ctx, d.RetryAfter)
}

// inTime tells whether there is anything left of a context after d.
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
