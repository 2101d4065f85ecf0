package main

import (
	"context"
	"net"
	"net/http"

	"github.com/didip/tollbooth/v8"
	tollboothlimiter "github.com/didip/tollbooth/v8/limiter"
	"github.com/go-chi/httprate"
	golimiterhttp "github.com/sethvargo/go-limiter/httplimit"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
)

// slidegateMiddlewares returns one row for each kind of headers. The limit and the body are the defaults.
func slidegateMiddlewares() []middleware {
	row := func(name, headerNames string, headers httplimit.Headers, mostAllocs int) middleware {
		return middleware{name: name, family: own, headers: headerNames, mostAllocs: mostAllocs, open: func(s spec) (openMiddleware, error) {
			return openSlidegateMiddleware(s, headers)
		}}
	}
	return []middleware{
		row("slidegate, no headers", "none", httplimit.HeadersNone, 0),
		row("slidegate", "2 RateLimit (IETF)", httplimit.HeadersIETF, 2),
		row("slidegate, X-RateLimit", "3 X-RateLimit", httplimit.HeadersX, anyAllocs),
	}
}

func openSlidegateMiddleware(s spec, headers httplimit.Headers) (openMiddleware, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return openMiddleware{}, err
	}
	limiter, err := slidegate.New(store, slidegate.Limit{Name: "api", Quota: s.quota, Window: s.window, Algorithm: slidegate.SlidingWindow})
	if err != nil {
		return openMiddleware{}, err
	}
	m, err := httplimit.New(limiter, httplimit.Options{Headers: headers})
	if err != nil {
		return openMiddleware{}, err
	}
	return openMiddleware{wrap: m.Wrap}, nil
}

// openHTTPRateMiddleware limits by the connected address, in the way that httprate's documentation makes a key of it.
func openHTTPRateMiddleware(s spec) (openMiddleware, error) {
	return openMiddleware{wrap: httprate.LimitBy(int(s.quota), s.window, func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(host), err
	})}, nil
}

func openGoLimiterMiddleware(s spec) (openMiddleware, error) {
	l, err := openGoLimiter(s)
	if err != nil {
		return openMiddleware{}, err
	}
	store := l.(*goLimiter).store
	m, err := golimiterhttp.NewMiddleware(store, golimiterhttp.IPKeyFunc())
	if err != nil {
		return openMiddleware{}, err
	}
	return openMiddleware{wrap: m.Handle, close: func() { _ = store.Close(context.Background()) }}, nil
}

func openUluleMiddleware(s spec) (openMiddleware, error) {
	l, err := openUlule(s)
	if err != nil {
		return openMiddleware{}, err
	}
	return openMiddleware{wrap: stdlib.NewMiddleware(l.(*ululeLimiter).limiter).Handler}, nil
}

// openTollboothMiddleware limits by address alone, as the others do: by default the path is part of the key.
func openTollboothMiddleware(s spec) (openMiddleware, error) {
	l, err := openTollbooth(s)
	if err != nil {
		return openMiddleware{}, err
	}
	limiter := l.(*tollboothLimiter).limiter.SetIgnoreURL(true).SetIPLookup(tollboothlimiter.IPLookup{Name: "RemoteAddr"})
	return openMiddleware{wrap: tollbooth.HTTPMiddleware(limiter)}, nil
}
