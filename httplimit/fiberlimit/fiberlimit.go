package fiberlimit

import (
	"net/http"
	"runtime"

	"github.com/gofiber/fiber/v3"
	"github.com/slidegate/slidegate/httplimit"
)

// New returns a fiber middleware that limits requests. A refused request is answered, and no later handler runs. The client
// is the peer of the connection unless a policy's Key says otherwise: fiber's TrustProxy is not used. Parameters of the
// route at which the middleware stands are path values of the request, as httplimit.ByPathValue reads them; before all routes,
// with app.Use, there are none.
//
// Fiber's routes ignore case and a final slash unless it is configured otherwise, and a policy's Match does not. To limit
// one route, put the middleware there: app.Post("/login", fiberlimit.New(limits), login).
//
// A policy with a CostAfter must know the response before it can charge for it. If such a policy matches and a handler returns
// an error, the middleware therefore calls fiber's ErrorHandler at once and returns nil, as fiber's own logger does: outer
// middleware finds the answer, and not the error. Without a CostAfter the error is passed on.
//
// Fiber sends a stream, and calls the handler that takes over a connection, after the middleware has returned. The slots of in-flight
// limits are held until that has ended.
//
// New panics if limits is nil. The handler is safe for concurrent use.
func New(limits *httplimit.Middleware) fiber.Handler {
	if limits == nil {
		panic("fiberlimit: limits: must not be nil; httplimit.New makes them")
	}
	return func(c fiber.Ctx) (err error) {
		to := newWriter(c)
		limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to.admit()
			c.SetContext(r.Context()) // where SetCost finds the policies, and a middleware inside what was charged
			if w == http.ResponseWriter(to) {
				err = c.Next() // no policy wants to see the response
				return
			}
			if err = c.Next(); httplimit.NeedsResponse(r) {
				err = answered(c, err)
				show(c, w)
			}
			if c.RequestCtx().Hijacked() || c.Response().IsBodyStream() {
				keepSlots(c, r)
			}
		})).ServeHTTP(to, newRequest(c))
		to.finish()
		return err
	}
}

// SetCost lets a handler say what the request cost, for policies with a CostAfter; see httplimit.SetCost. It reports whether
// there is such a policy.
func SetCost(c fiber.Ctx, cost int64) bool {
	return httplimit.SetCost(new(http.Request).WithContext(c.Context()), cost)
}

// KeepSlots keeps the slots of in-flight limits that the request holds after its handler has returned, until release is called; see
// httplimit.KeepSlots. Streams and connections that a handler takes over keep theirs by themselves.
func KeepSlots(c fiber.Ctx) (release func()) {
	return httplimit.KeepSlots(new(http.Request).WithContext(c.Context()))
}

// keepSlots keeps the slots of a request until fasthttp forgets it: it closes the request's values when the response has been
// written, or the handler that took over the connection has returned.
func keepSlots(c fiber.Ctx, r *http.Request) {
	kept := &keeper{httplimit.KeepSlots(r)}
	// Fasthttp drops a request whose client has gone before the connection was taken over, and does not close its values. The slot is
	// then released when the request is collected.
	runtime.AddCleanup(kept, func(release func()) { release() }, kept.release)
	c.RequestCtx().SetUserValue(kept, kept)
}

// keeper is a value of a request that releases slots when it is closed.
type keeper struct{ release func() }

func (k *keeper) Close() error {
	k.release()
	return nil
}

// answered has fiber's ErrorHandler answer an error, as fiber does when all middleware has returned it.
func answered(c fiber.Ctx, err error) error {
	if err == nil {
		return nil
	}
	if c.App().ErrorHandler(c, err) != nil {
		return c.SendStatus(fiber.StatusInternalServerError)
	}
	return nil
}

// show reports fiber's response to the middleware: its status, and as many bytes as its body has. The bytes are not the
// body's, for a stream is read only after the handlers have returned.
func show(c fiber.Ctx, w http.ResponseWriter) {
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

// zeros stand for a body. They are never read.
var zeros [1 << 20]byte
