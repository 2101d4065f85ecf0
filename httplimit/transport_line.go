package httplimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
)

// admitInLine waits in line until the limiter admits a request, and no server blocks its key.
func (t *Transport) admitInLine(ctx context.Context, key string, cost int64) error {
	within := ctx
	if t.opts.MaxWait > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, t.opts.MaxWait)
		defer cancel()
	}
	var last *RefusedError
	err := adapter.WaitWith(within, t.opts.Limiter, key, cost, func(_ context.Context, admit func(context.Context) (slidegate.Decision, error)) (slidegate.Decision, error) {
		last = nil
		// The server comes first: units are taken only when they can be used immediately.
		if left, limit := t.blocks.Find(key, time.Now()); left > 0 {
			last = &RefusedError{RetryAfter: left, Limit: limit, Server: true}
			return slidegate.Decision{RetryAfter: left}, nil
		}
		d, err := admit(ctx)
		if err != nil || d.Allowed {
			return d, err
		}
		last = &RefusedError{RetryAfter: d.RetryAfter, Limit: d.LimitName}
		if d.RetryAfter <= 0 { // a failure mode below the limiter refuses without a time
			return d, last
		}
		return d, nil
	})
	return t.refusalInLine(ctx, within, key, cost, last, err)
}

// refusalInLine returns why a request that stood in line is not sent, or nil. Last is what refused it last, if anything did.
func (t *Transport) refusalInLine(ctx, within context.Context, key string, cost int64, last *RefusedError, err error) error {
	var late *slidegate.DeadlineError
	var refused *RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return refused
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &late), errors.Is(err, slidegate.ErrNever), within.Err() != nil:
	case t.opts.FailClosed || errors.Is(err, slidegate.ErrCost) || errors.Is(err, slidegate.ErrLineFull):
		return fmt.Errorf("httplimit: the limiter could not decide: %w", err)
	default:
		return nil
	}
	if last == nil { // it was refused before its turn
		last = &RefusedError{}
		if d, err := t.opts.Limiter.Peek(ctx, key, cost); err == nil {
			last.RetryAfter, last.Limit = d.RetryAfter, d.LimitName
		}
	}
	switch {
	case late != nil:
		last.RetryAfter = late.RetryAfter
		if deadline, ends := ctx.Deadline(); ends && time.Until(deadline) <= late.RetryAfter && (t.opts.MaxWait == 0 || late.RetryAfter <= t.opts.MaxWait) {
			last.cause = context.DeadlineExceeded
		}
	case errors.Is(err, slidegate.ErrNever):
		last.RetryAfter, last.cause = slidegate.Never, slidegate.ErrNever
	}
	return last
}

// maxKept is how much of a response is kept while the request waits to be sent again.
const maxKept = 64 << 10

// again returns the request to send after a response that asks to wait, or nil if it must not be sent again. The response can still be
// returned: its connection is free.
func (t *Transport) again(r *http.Request, response *http.Response) *http.Request {
	if response == nil || response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable || !isRepeatable(r) {
		return nil
	}
	if hold, _ := heldFor(response, time.Now()); hold <= 0 {
		return nil
	}
	again := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		if again.Body, err = r.GetBody(); err != nil {
			return nil
		}
	}
	kept, err := io.ReadAll(io.LimitReader(response.Body, maxKept+1))
	if err != nil || len(kept) > maxKept {
		response.Body = &rest{io.MultiReader(bytes.NewReader(kept), response.Body), response.Body}
		return nil
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(kept))
	return again
}

// rest is a body of which some has been read.
type rest struct {
	io.Reader
	io.Closer
}

// isRepeatable reports whether a request may be sent twice, and can be.
func isRepeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}
