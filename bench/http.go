package main

import (
	"fmt"
	"math"
	"net/http"
	"slices"
)

// middleware is a row of the HTTP tables: a library's own middleware in front of a handler that does next to nothing, by the
// address of the peer.
type middleware struct {
	name, family string
	headers      string // the headers of a response to an admitted request
	open         func(spec) (opened, error)
	mostAllocs   int // the goal; see goals
}

// opened is a middleware with its resources.
type opened struct {
	wrap  func(http.Handler) http.Handler
	close func() // may be nil
}

// The goals of this project's rows, as fractions of what the fastest peer adds to the handler.
const (
	goalAllowed = 1.0 / 5
	goalDenied  = 1.0 / 3
	anyAllocs   = math.MaxInt // no goal
)

// bare is the row without a middleware, which is subtracted from the others.
const bare = "(handler alone)"

func middlewares() []middleware {
	return slices.Concat(slidegateMiddlewares(), []middleware{
		{name: "httprate", family: "httprate", headers: "3 X-RateLimit", open: openHTTPRateMiddleware},
		{name: "go-limiter", family: "go-limiter", headers: "3 X-RateLimit", open: openGoLimiterMiddleware},
		{name: "ulule/limiter", family: "ulule", headers: "3 X-RateLimit", open: openUluleMiddleware},
		{name: "tollbooth", family: "tollbooth", headers: "3 RateLimit, 3 X-Rate-Limit", open: openTollboothMiddleware},
		{name: bare, headers: "none", open: func(spec) (opened, error) {
			return opened{wrap: func(h http.Handler) http.Handler { return h }}, nil
		}},
	})
}

// library makes the row a library that the harness can time.
func (m *middleware) library() library {
	return library{name: m.name, family: m.family, open: func(s spec) (limiter, error) {
		o, err := m.open(s)
		if err != nil {
			return nil, err
		}
		return newServed(o), nil
	}}
}

// served is a handler behind a middleware, called repeatedly with the same request. It is not safe for concurrent use: it is timed
// on one processor.
type served struct {
	opened
	handler http.Handler
	request *http.Request
	answer  answer
}

func newServed(o opened) *served {
	request, err := http.NewRequest(http.MethodGet, "http://example.com/", nil)
	if err != nil {
		panic(err) // the arguments are constant
	}
	request.RemoteAddr = "203.0.113.77:49152"
	return &served{opened: o, handler: o.wrap(http.HandlerFunc(greet)), request: request, answer: answer{header: http.Header{}}}
}

var greeting = []byte("hello\n")

// greet is the handler that is limited.
func greet(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(greeting) }

// Allow serves one request, whose client is always the same.
func (s *served) Allow(string) bool {
	clear(s.answer.header)
	s.answer.status = 0
	s.handler.ServeHTTP(&s.answer, s.request)
	switch s.answer.status {
	case http.StatusOK:
		return true
	case http.StatusTooManyRequests:
		return false
	}
	panic(fmt.Sprintf("status %d", s.answer.status)) // no store in memory has a reason to fail
}

func (s *served) Close() {
	if s.close != nil {
		s.close()
	}
}

// answer is a response that keeps its status and its headers. It is reused, so no row pays for the map that a server makes for each
// response.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(body []byte) (int, error) {
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
	allowed, denied := r.hotLoad("HTTP, allowed"), r.hotLoad("HTTP, denied")
	allowed.most = ampleQuota / 10 * 9
	allowed.least, allowed.utmost = 1, 1
	groups := []*group{
		{spec: spec{quota: ampleQuota, window: quotaWindow}, loads: []load{allowed}},
		{spec: spec{quota: scantQuota, window: quotaWindow}, loads: []load{denied}, fill: hotKeys, times: 2 * scantQuota},
	}
	s := results{}
	for _, g := range groups {
		g.procs, g.libraries = []int{1}, libraries
		if err := r.timeGroup(g, s); err != nil {
			return nil, err
		}
	}
	return []*table{r.httpTable(&allowed, rows, s, goalAllowed), r.httpTable(&denied, rows, s, goalDenied)}, nil
}

// middlewares returns the rows of the selected libraries, and the handler alone.
func (r *run) middlewares() []middleware {
	return slices.DeleteFunc(middlewares(), func(m middleware) bool {
		return m.name != bare && !slices.ContainsFunc(r.libraries, func(l library) bool { return l.family == m.family })
	})
}

// httpTable makes the table of one load, minus the time of the handler alone.
func (r *run) httpTable(l *load, rows []middleware, s results, goal float64) *table {
	t := &table{
		title:   l.name + ": what a middleware adds to a handler",
		columns: []string{"middleware", "tells", "ns added", "ratio", "allocs added", "allowed", "spread", "goal"}, names: 2,
	}
	alone := s.at(cell{bare, l.name, 1})
	over := func(m *middleware) (ns, allocs float64) {
		got := s.at(cell{m.name, l.name, 1})
		return median(got.nanos) - median(alone.nanos), median(got.allocs) - median(alone.allocs)
	}
	fastest := math.Inf(1)
	for i := range rows {
		if rows[i].name != bare && rows[i].family != own {
			ns, _ := over(&rows[i])
			fastest = min(fastest, ns)
		}
	}
	for i := range rows {
		m := &rows[i]
		got := s.at(cell{m.name, l.name, 1})
		if m.name == bare {
			t.note("The handler alone takes %s ns with this harness, which is subtracted.", nanos(median(got.nanos)))
			continue
		}
		if got.share() < l.least || got.share() > l.utmost {
			r.fail("%s: %s: %.4f of the requests were admitted, want %g to %g", l.name, m.name, got.share(), l.least, l.utmost)
		}
		ns, allocs := over(m)
		times, verdict := "-", "-"
		if !math.IsInf(fastest, 1) { // at least one peer is measured
			times, verdict = ratio(ns, fastest), m.goal(ns/fastest, allocs, goal, l.least == 1)
		}
		t.add(m.name, m.headers, nanos(ns), times, allocations(allocs), percent(got.share()),
			fmt.Sprintf("±%.0f%%", 50*got.spread()), verdict)
	}
	t.note("Medians of %d interleaved rounds, processor time, 1 CPU, one client by IPv4 address. Ratio is to the fastest peer. The "+
		"response is used again, so its headers are also removed in that time; a server makes a new map instead.", r.rounds)
	return t
}

// goal returns whether a row of ours reaches its goals. The goals for allocations apply to admitted requests.
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
