package main

import (
	"fmt"
	"math"
	"net/http"
	"slices"
)

// middleware is a row of the HTTP tables: a library's own middleware, which limits by the address of the peer, in front of a handler
// that does next to nothing.
type middleware struct {
	name, family string
	headers      string // the headers of a response to an admitted request
	open         func(spec) (openMiddleware, error)
	mostAllocs   int // the goal; see goals
}

// openMiddleware is a middleware with its resources.
type openMiddleware struct {
	wrap  func(http.Handler) http.Handler
	close func() // may be nil
}

// The goals of this project's rows, as fractions of what the fastest peer adds to the handler.
const (
	goalAllowed = 1.0 / 5
	goalRefused = 1.0 / 3
	anyAllocs   = math.MaxInt // no goal
)

// rowHandlerAlone is the row without a middleware, which is subtracted from the others.
const rowHandlerAlone = "(handler alone)"

func middlewares() []middleware {
	return slices.Concat(slidegateMiddlewares(), []middleware{
		{name: "httprate", family: "httprate", headers: "3 X-RateLimit", open: openHTTPRateMiddleware},
		{name: "go-limiter", family: "go-limiter", headers: "3 X-RateLimit", open: openGoLimiterMiddleware},
		{name: "ulule/limiter", family: "ulule", headers: "3 X-RateLimit", open: openUluleMiddleware},
		{name: "tollbooth", family: "tollbooth", headers: "3 RateLimit, 3 X-Rate-Limit", open: openTollboothMiddleware},
		{name: rowHandlerAlone, headers: "none", open: func(spec) (openMiddleware, error) {
			return openMiddleware{wrap: func(h http.Handler) http.Handler { return h }}, nil
		}},
	})
}

// library returns the row as a library that the harness can time.
func (m *middleware) library() library {
	return library{name: m.name, family: m.family, open: func(s spec) (limiter, error) {
		o, err := m.open(s)
		if err != nil {
			return nil, err
		}
		return newServedHandler(o), nil
	}}
}

// servedHandler is a handler behind a middleware, called repeatedly with the same request. It is not safe for concurrent use: it is timed
// on one processor.
type servedHandler struct {
	openMiddleware
	handler  http.Handler
	request  *http.Request
	recorder recorder
}

func newServedHandler(o openMiddleware) *servedHandler {
	request, err := http.NewRequest(http.MethodGet, "http://example.com/", nil)
	if err != nil {
		panic(err) // the arguments are constant
	}
	request.RemoteAddr = "203.0.113.77:49152"
	return &servedHandler{openMiddleware: o, handler: o.wrap(http.HandlerFunc(greet)), request: request, recorder: recorder{header: http.Header{}}}
}

var greeting = []byte("hello\n")

// greet is the handler that is limited.
func greet(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(greeting) }

// Allow serves one request, whose client is always the same.
func (s *servedHandler) Allow(string) bool {
	clear(s.recorder.header)
	s.recorder.status = 0
	s.handler.ServeHTTP(&s.recorder, s.request)
	switch s.recorder.status {
	case http.StatusOK:
		return true
	case http.StatusTooManyRequests:
		return false
	}
	panic(fmt.Sprintf("status %d", s.recorder.status)) // no store in memory has a reason to fail
}

func (s *servedHandler) Close() {
	if s.close != nil {
		s.close()
	}
}

// recorder is a response that keeps its status and its headers. It is reused, so no row pays for the map that a server makes for each
// response.
type recorder struct {
	header http.Header
	status int
}

func (a *recorder) Header() http.Header { return a.header }

func (a *recorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *recorder) Write(body []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return len(body), nil
}

// httpTables measures what a middleware adds to a handler, when it admits and when it refuses.
func (r *run) httpTables() ([]*table, error) {
	rows := r.middlewares()
	var libraries []library
	for i := range rows {
		libraries = append(libraries, rows[i].library())
	}
	allowed, refused := r.hotLoad("HTTP, allowed"), r.hotLoad("HTTP, refused")
	allowed.most = ampleQuota / 10 * 9
	allowed.minShare, allowed.maxShare = 1, 1
	groups := []*group{
		{spec: spec{quota: ampleQuota, window: quotaWindow}, loads: []load{allowed}},
		{spec: spec{quota: scantQuota, window: quotaWindow}, loads: []load{refused}, fill: hotKeys, times: 2 * scantQuota},
	}
	s := results{}
	for _, g := range groups {
		g.procs, g.libraries = []int{1}, libraries
		if err := r.timeGroup(g, s); err != nil {
			return nil, err
		}
	}
	return []*table{r.httpTable(&allowed, rows, s, goalAllowed), r.httpTable(&refused, rows, s, goalRefused)}, nil
}

// middlewares returns the rows of the selected libraries, and the handler alone.
func (r *run) middlewares() []middleware {
	return slices.DeleteFunc(middlewares(), func(m middleware) bool {
		return m.name != rowHandlerAlone && !slices.ContainsFunc(r.libraries, func(l library) bool { return l.family == m.family })
	})
}

// httpTable makes the table of one load. The time of the handler alone is subtracted.
func (r *run) httpTable(l *load, rows []middleware, s results, goal float64) *table {
	t := &table{
		title:   l.name + ": what a middleware adds to a handler",
		columns: []string{"middleware", "headers", "ns added", "ratio", "allocs added", "allowed", "spread", "goal"}, names: 2,
	}
	alone := s.at(cell{rowHandlerAlone, l.name, 1})
	over := func(m *middleware) (ns, allocs float64) {
		got := s.at(cell{m.name, l.name, 1})
		return median(got.nanos) - median(alone.nanos), median(got.allocs) - median(alone.allocs)
	}
	fastest := math.Inf(1)
	for i := range rows {
		if rows[i].name != rowHandlerAlone && rows[i].family != own {
			ns, _ := over(&rows[i])
			fastest = min(fastest, ns)
		}
	}
	for i := range rows {
		m := &rows[i]
		got := s.at(cell{m.name, l.name, 1})
		if m.name == rowHandlerAlone {
			t.note("The handler alone takes %s ns with this harness, which is subtracted.", nanos(median(got.nanos)))
			continue
		}
		if got.share() < l.minShare || got.share() > l.maxShare {
			r.fail("%s: %s: %.4f of the requests were admitted, want %g to %g", l.name, m.name, got.share(), l.minShare, l.maxShare)
		}
		ns, allocs := over(m)
		times, result := "-", "-"
		if !math.IsInf(fastest, 1) { // at least one peer is measured
			times, result = ratio(ns, fastest), m.goal(ns/fastest, allocs, goal, l.minShare == 1)
		}
		t.add(m.name, m.headers, nanos(ns), times, allocations(allocs), percent(got.share()),
			fmt.Sprintf("±%.0f%%", 50*got.spread()), result)
	}
	t.note("Medians of %d interleaved rounds, processor time, 1 CPU, one client by IPv4 address. Ratio is to the fastest peer. The "+
		"response is reused, so the time includes removing its headers; a server makes a new map instead.", r.rounds)
	return t
}

// goal reports, as text, whether a row of ours reaches its goals. The goals for allocations apply to admitted requests.
func (m *middleware) goal(part, allocs, most float64, admits bool) string {
	if m.family != own {
		return ""
	}
	text := fmt.Sprintf("%.2fx", most)
	met := part <= most
	if admits && m.mostAllocs < anyAllocs {
		text += fmt.Sprintf(", %d allocs", m.mostAllocs)
		met = met && allocs < float64(m.mostAllocs)+0.005
	}
	if met {
		return text + ": met"
	}
	return text + ": missed"
}
