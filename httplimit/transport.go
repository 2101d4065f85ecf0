package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/blocks"
)

// The defaults of TransportOptions.
const (
	defaultMaxObey = time.Hour
	defaultMaxKeys = 1024
)

// TransportOptions configures a Transport. The zero value is valid: it obeys servers, has no limits, and immediately refuses
// what may not be sent yet.
type TransportOptions struct {
	// Limiter is the transport's own limit, which decides before a request is sent. nil means none. It is charged for every
	// request that is sent, including requests that follow a redirect and requests that fail on the way.
	Limiter *slidegate.Limiter
	// Key determines which requests count together, for the Limiter and for the responses of servers. It should divide requests
	// as the server does: with several accounts on one server, use one key per account. nil means the server, as in
	// https://example.com: scheme, host, and the port if it is not the default one.
	Key Key
	// Cost is how many units of the Limiter a request takes; nil means 1. A request with a cost of 0 skips the Limiter.
	Cost func(*http.Request) int64
	// Wait delays a request until it may be sent, for as long as its context allows. If the wait would outlast the context's
	// deadline, the request is refused immediately, with an error that is also context.DeadlineExceeded. Without Wait every
	// request that may not be sent now is refused immediately.
	Wait bool
	// MaxWait is the longest time that Wait delays a request, each time that it is sent: Retries may add to it. A request that would wait
	// longer is refused as soon as that is known. 0 leaves it to the request's context.
	MaxWait time.Duration
	// Retries is how often a request is sent again after a 429 or a 503 that says when, if Wait is set and the response cannot be due to
	// what the request did: its method is idempotent or it has an Idempotency-Key, and its body can be read again (http.Request.GetBody).
	// It stands in line again, and each attempt is charged. 0 means never.
	Retries int
	// MaxObey is the longest time that a server can block a key by one response; longer times are cut to this. It keeps a
	// faulty or hostile server from stopping the client for good. 0 means an hour.
	MaxObey time.Duration
	// MaxKeys is how many keys servers may block at a time; 0 means 1024. When there are more, the block that ends soonest is
	// dropped; blocks that have ended are always dropped first.
	MaxKeys int
	// FailClosed fails a request when the Limiter's store returns an error, with that error. Otherwise the request is sent, so that
	// an outage of the limiter is not an outage of the client. An invalid cost is always an error. A store from stack.New decides
	// by its failure mode, and so counts in this process during an outage.
	FailClosed bool
}

// Transport is an http.RoundTripper that sends a request only when it may be sent: when its own limit admits it, and no server
// has asked it to wait. It is safe for concurrent use, runs nothing in the background and never changes a request. The zero
// value is not usable; call NewTransport.
//
// It obeys these fields of a response, each for the key of its request:
//
//   - Retry-After, in seconds or as a date, of a 429, 503 or 403. If it is valid, no other field counts.
//   - RateLimit, as in the IETF drafts 08 to 11 ("api";r=0;t=18), in their next text ("api";a=0;w=18), and 07 (limit=5, remaining=0, reset=18). Every item
//     without anything remaining blocks for its time.
//   - RateLimit-Remaining with RateLimit-Reset, of the earlier drafts.
//   - X-RateLimit-Remaining with X-RateLimit-Reset, and both spelled X-Rate-Limit.
//
// If several of the last three block, the longest time counts. A reset below 1,000,000,000 is in seconds from now, one below
// 1,000,000,000,000 is a Unix time in seconds, and a larger one is in milliseconds: a reset is neither 31 years from now, nor
// in the year 33658. Absolute times are compared with the response's Date if it has one, so that a difference between the
// server's clock and the local one does not matter. Fields that are malformed or longer than 8 KB are ignored, and so are all
// fields of a response with an Age: it comes from a cache, and is about another client's request. A block is never shortened by
// another response, which may have been sent earlier.
//
// Unless Retries is set, it does not retry: a 429 is returned like every response; the next request for the key waits or is refused. A
// client that retries finds the time to do so in RefusedError.
//
// When a server's block ends, all requests that waited for it are sent at the same time, unless a Limiter spreads them: with one, the waiting
// requests of a key are sent in the order in which they came.
type Transport struct {
	next   http.RoundTripper
	opts   TransportOptions
	blocks *blocks.Blocks[string]
}

// NewTransport returns a transport that sends requests by next, or by http.DefaultTransport if next is nil. An error names the
// option that is wrong.
func NewTransport(next http.RoundTripper, opts TransportOptions) (*Transport, error) {
	switch {
	case opts.Limiter != nil && len(opts.Limiter.Limits()) == 0:
		return nil, errors.New("httplimit: limiter: has no limits; pass some to slidegate.New")
	case opts.Limiter != nil && slices.ContainsFunc(opts.Limiter.Limits(), func(l slidegate.Limit) bool { return l.Algorithm == slidegate.InFlight }):
		return nil, fmt.Errorf("httplimit: limiter: %w: a transport holds no slots of in-flight limits; acquire and release them around the call",
			slidegate.ErrUnsupported)
	case opts.Limiter == nil && opts.Cost != nil:
		return nil, errors.New("httplimit: cost: has no effect without Limiter; set Limiter")
	case opts.MaxWait < 0:
		return nil, fmt.Errorf("httplimit: max wait: must not be negative, got %v", opts.MaxWait)
	case opts.MaxWait > 0 && !opts.Wait:
		return nil, errors.New("httplimit: max wait: has no effect without Wait; set Wait")
	case opts.Retries < 0:
		return nil, fmt.Errorf("httplimit: retries: must not be negative, got %d", opts.Retries)
	case opts.Retries > 0 && !opts.Wait:
		return nil, errors.New("httplimit: retries: has no effect without Wait; set Wait")
	case opts.MaxObey < 0:
		return nil, fmt.Errorf("httplimit: max obey: must not be negative, got %v", opts.MaxObey)
	case opts.MaxKeys < 0:
		return nil, fmt.Errorf("httplimit: max keys: must not be negative, got %d", opts.MaxKeys)
	}
	if next == nil {
		next = http.DefaultTransport
	}
	if opts.Key.IsZero() {
		opts.Key = KeyFunc(serverOf)
	}
	if opts.MaxObey == 0 {
		opts.MaxObey = defaultMaxObey
	}
	if opts.MaxKeys == 0 {
		opts.MaxKeys = defaultMaxKeys
	}
	return &Transport{next: next, opts: opts, blocks: blocks.New[string](opts.MaxKeys)}, nil
}

// serverOf is the default Key of a transport.
func serverOf(r *http.Request) (string, error) {
	if r.URL == nil {
		return "", nil // the next transport returns the error
	}
	scheme, host := strings.ToLower(r.URL.Scheme), strings.ToLower(r.URL.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + host, nil
}

// RoundTrip sends a request when it may be sent. If that is not now, it waits or returns a *RefusedError, depending on the
// options. A refused request is not sent.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key, err := t.opts.Key.Of(r)
	if err != nil {
		err = fmt.Errorf("httplimit: key: %w", err)
	} else {
		err = t.admit(r, key)
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must close it; the error no longer matters
		}
		return nil, err
	}
	response, err := t.send(r, key)
	for range t.opts.Retries {
		again := t.again(r, response)
		if again == nil || t.admit(again, key) != nil {
			break
		}
		response, err = t.send(again, key)
	}
	return response, err
}

// send sends a request, and obeys the response.
func (t *Transport) send(r *http.Request, key string) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if response != nil {
		now := time.Now()
		if hold, limit := heldFor(response, now); hold > 0 {
			t.blocks.Add(key, now.Add(min(hold, t.opts.MaxObey)), limit, now)
		}
	}
	return response, err
}

// CloseIdleConnections closes the idle connections of the next transport, if it can; http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// admit returns nil when the request may be sent, or the reason why it is not sent.
func (t *Transport) admit(r *http.Request, key string) error {
	cost := int64(1)
	if t.opts.Cost != nil {
		cost = t.opts.Cost(r)
	}
	ctx, began := r.Context(), time.Now()
	if t.opts.Wait && t.opts.Limiter != nil && cost != 0 {
		return t.admitInLine(ctx, key, cost)
	}
	for {
		if ctx.Err() != nil { // a caller that is gone must not take anything
			return context.Cause(ctx)
		}
		// The server comes first: units are taken only when they can be used immediately.
		var refused *RefusedError
		if left, limit := t.blocks.Find(key, time.Now()); left > 0 {
			refused = &RefusedError{RetryAfter: left, Limit: limit, Server: true}
		} else {
			var err error
			if refused, err = t.decide(ctx, key, cost); err != nil {
				return err
			}
		}
		if refused == nil {
			return nil
		}
		if err := t.pause(ctx, refused, time.Since(began)); err != nil {
			return err
		}
	}
}

// decide takes the cost from the transport's own limiter. The refusal is nil if it was admitted, or if the store could not
// decide and the options allow the request.
func (t *Transport) decide(ctx context.Context, key string, cost int64) (*RefusedError, error) {
	if t.opts.Limiter == nil || cost == 0 {
		return nil, nil
	}
	d, err := t.opts.Limiter.AllowN(ctx, key, cost)
	switch {
	case err == nil && d.Allowed:
		return nil, nil
	case err == nil:
		return &RefusedError{RetryAfter: d.RetryAfter, Limit: d.LimitName}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case t.opts.FailClosed || errors.Is(err, slidegate.ErrCost):
		return nil, fmt.Errorf("httplimit: the limiter could not decide: %w", err)
	}
	return nil, nil
}

// pause waits for as long as a refusal requires, or returns immediately if waiting is useless or not wanted.
func (t *Transport) pause(ctx context.Context, refused *RefusedError, waited time.Duration) error {
	wait := refused.RetryAfter
	deadline, ends := ctx.Deadline()
	switch {
	case wait == slidegate.Never:
		refused.cause = slidegate.ErrNever
		return refused
	case !t.opts.Wait, wait <= 0: // a failure mode below the limiter refuses without a time
		return refused
	case t.opts.MaxWait > 0 && wait > t.opts.MaxWait-waited:
		return refused
	case ends && time.Until(deadline) <= wait:
		refused.cause = context.DeadlineExceeded
		return refused
	}
	return blocks.Pause(ctx, wait)
}
