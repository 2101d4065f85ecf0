package httplimit

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/engine"
)

// holding is what an admitted request has taken and will settle, and the slots that it holds until its handler has returned and
// all callers of KeepSlots have released them.
type holding struct {
	m       *Middleware
	request *http.Request
	taken   *engine.Transaction
	policy  string       // the one that decided
	keepers atomic.Int32 // the handler, until it has returned, and the callers of KeepSlots; 0 when taken has ended
}

// hold begins to hold what a request took. The caller must call finish on the returned recorder when the handler has returned.
func (m *Middleware) hold(w http.ResponseWriter, r *http.Request, q *engine.Transaction, name string, matching []*compiled) *recorder {
	c := &recorder{
		costs:          handlerCosts(matching),
		ResponseWriter: w, outer: recorderOf(r), settles: q.HoldsUnits(), slots: q.HoldsSlots(),
		holding: holding{m: m, request: r, taken: q, policy: name},
	}
	c.holding.keepers.Store(1)
	if c.slots {
		q.RenewSlots(r.Context(), c.holding.report)
	}
	return c
}

// finish settles what a request took, and releases its slots unless they are kept.
func (c *recorder) finish() {
	h := &c.holding
	if !c.finished && c.status == 0 {
		c.status = http.StatusInternalServerError // the handler is panicking
	}
	c.begin()
	var actual func(int, int64) int64
	if c.settles {
		actual = func(index int, cost int64) int64 {
			if p := h.m.policies[index]; p.CostAfter != nil {
				return p.CostAfter(h.request, c.response(p, cost))
			}
			return cost
		}
	}
	if h.keepers.CompareAndSwap(1, 0) {
		h.taken.Finish(h.request.Context(), actual, h.failed)
		return
	}
	if actual == nil {
		h.release()
		return
	}
	settled := false
	defer func() {
		if !settled { // actual is panicking
			h.release()
		}
	}()
	h.taken.Settle(h.request.Context(), actual, func(err error) {
		h.failed(err)
		h.release()
	})
	settled = true
}

// keep adds a holder of the slots, and reports whether they are still held.
func (h *holding) keep() bool {
	for {
		n := h.keepers.Load()
		if n == 0 {
			return false
		}
		if h.keepers.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release removes a holder of the slots. The last one releases them.
func (h *holding) release() {
	if h.keepers.Add(-1) == 0 {
		h.taken.Finish(h.request.Context(), nil, h.failed)
	}
}

func (h *holding) failed(err error) {
	if err != nil {
		h.report(Event{Policy: h.policy, Err: err})
	}
}

func (h *holding) report(event Event) {
	if h.m.opts.OnDecision != nil {
		h.m.opts.OnDecision(h.request, event)
	}
}

// KeepSlots keeps the slots of in-flight limits that a request holds beyond the return of its handler, until release is called.
// It is for handlers that leave work behind, and for routers that send responses after the handler has returned. It keeps the
// slots of all middlewares around the handler, and must be called before they return: later it does nothing. A handler inside
// http.TimeoutHandler continues to run after the timeout, but its slot is released at the timeout unless it called KeepSlots
// first. release may be called several times, and must be called eventually: nothing else releases the slots while the process
// lives. Connections that a handler takes over by http.Hijacker keep their slots until they are closed, without a call to
// KeepSlots. If the request holds no slots, release does nothing.
func KeepSlots(r *http.Request) (release func()) { return recorderOf(r).keepSlots() }

// keepSlots is KeepSlots for the recorder of the innermost middleware, which may be nil.
func (c *recorder) keepSlots() (release func()) {
	var kept []*holding
	for ; c != nil; c = c.outer {
		if c.slots && c.holding.keep() {
			kept = append(kept, &c.holding)
		}
	}
	return sync.OnceFunc(func() {
		for _, h := range kept {
			h.release()
		}
	})
}

// Drain waits until the slots of requests that have ended are released, or ctx ends. A program calls it before it exits, after
// http.Server.Shutdown: with a store that has round trips, a slot is released after the response was sent. Slots that are not
// released expire after their time to live. Connections that handlers have taken over hold their slots until they are closed;
// http.Server.RegisterOnShutdown is the place to close them. Drain also returns leased units.
func (m *Middleware) Drain(ctx context.Context) error { return withPackage(m.set.Drain(ctx)) }
