package fiberlimit

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/slidegate/slidegate/httplimit"
)

// New returns a fiber middleware that limits requests. A refused request gets its response from the middleware, and no later
// handler runs. The client is the peer of the connection unless a policy's Key differs: fiber's TrustProxy is not used.
// Parameters of the route on which the middleware is registered are path values of the request, for httplimit.ByPathValue; with
// app.Use, before all routes, there are none.
//
// Fiber's routes ignore case and a trailing slash unless configured otherwise, as httplimit.ByPath does, and a policy's Match does
// not. To limit one route, put the middleware there: app.Post("/login", fiberlimit.New(limits), login).
//
// A policy with a CostAfter must see the response before it can charge for it. If such a policy matches and a handler returns
// an error, the middleware calls fiber's ErrorHandler immediately and returns nil, as fiber's own logger does: outer middleware
// sees the response, not the error. Without a CostAfter the error is passed on.
//
// Fiber sends a stream, and calls the handler that takes over a connection, after the middleware has returned. The slots of
// in-flight limits are held until that has ended.
//
// New panics if limits is nil. The handler is safe for concurrent use.
func New(limits *httplimit.Middleware) fiber.Handler {
	if limits == nil {
		panic("fiberlimit: limits: must not be nil; use httplimit.New")
	}
	return func(c fiber.Ctx) (err error) {
		to := newWriter(c)
		limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to.admit()
			c.SetContext(r.Context()) // SetCost finds the policies in it, and inner middleware what was charged
			if w == http.ResponseWriter(to) {
				err = c.Next() // no policy needs the response
				return
			}
			if err = c.Next(); httplimit.NeedsResponse(r) {
				err = handleError(c, err)
				reportResponse(c, w)
			}
			if c.RequestCtx().Hijacked() || c.Response().IsBodyStream() {
				keepSlots(c, r)
			}
		})).ServeHTTP(to, newRequest(c))
		to.finish()
		return err
	}
}

// SetCost lets a handler set the actual cost of the request, for policies with a CostAfter; see httplimit.SetCost.
func SetCost(c fiber.Ctx, cost int64, policies ...string) error {
	return httplimit.SetCost(new(http.Request).WithContext(c.Context()), cost, policies...)
}

// KeepSlots keeps the slots of in-flight limits that the request holds beyond the return of its handler, until release is
// called; see httplimit.KeepSlots. Streams and connections that a handler takes over keep their slots without it.
func KeepSlots(c fiber.Ctx) (release func()) {
	return httplimit.KeepSlots(new(http.Request).WithContext(c.Context()))
}

// Respond limits a request inside its handler, by a key that the handler has found out, and reports whether it has responded; see
// httplimit.Middleware.Respond. It copies the key, whose memory fiber may reuse.
func Respond(c fiber.Ctx, limits *httplimit.Middleware, policy, key string) (responded bool) {
	to := newWriter(c)
	if responded = limits.Respond(to, newRequest(c), policy, strings.Clone(key)); responded {
		to.finish()
	} else {
		to.admit()
	}
	return responded
}

// keepSlots keeps the slots of a request until fasthttp is done with it: it closes the request's values when the response has
// been written, or when the handler that took over the connection has returned.
func keepSlots(c fiber.Ctx, r *http.Request) {
	kept := &keeper{httplimit.KeepSlots(r)}
	// Fasthttp drops a request whose client is gone before the connection was taken over, and does not close its values. The
	// slot is then released when the request is garbage collected.
	runtime.AddCleanup(kept, func(release func()) { release() }, kept.release)
	c.RequestCtx().SetUserValue(kept, kept)
}

// keeper is a value of a request that releases slots when it is closed.
type keeper struct{ release func() }

func (k *keeper) Close() error {
	k.release()
	return nil
}

// handleError calls fiber's ErrorHandler to write the response to an error, as fiber does when all middleware has returned it.
func handleError(c fiber.Ctx, err error) error {
	if err == nil {
		return nil
	}
	if c.App().ErrorHandler(c, err) != nil {
		return c.SendStatus(fiber.StatusInternalServerError)
	}
	return nil
}

// reportResponse reports fiber's response to the middleware: its status, and the size of its body. The bytes are not those of
// the body, since a stream is read only after the handlers have returned.
func reportResponse(c fiber.Ctx, w http.ResponseWriter) {
	response := c.Response()
	w.WriteHeader(response.StatusCode())
	size := 0
	if response.IsBodyStream() {
		size = response.Header.ContentLength() // negative if it is unknown
	} else {
		size = len(response.Body())
	}
	for size > 0 {
		n := min(size, len(zeros))
		_, _ = w.Write(zeros[:n]) // to a writer that ignores it
		size -= n
	}
}

// zeros stands for the body of a response. Its bytes are never read.
var zeros [1 << 20]byte
