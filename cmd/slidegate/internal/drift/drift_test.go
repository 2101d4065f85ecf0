// Package drift tests that the middleware, the interceptors and the service agree: given the same policies, what one of
// them refuses the others must refuse too. It contains only tests.
package drift

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument/instrumenttest"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// outcome is the result of a request, independent of the protocol.
type outcome string

const (
	passed      outcome = "passed"  // the handler was called
	limited     outcome = "limited" // over the quota
	refused     outcome = "refused" // 403, PERMISSION_DENIED
	broken      outcome = "broken"  // a server error: 500, INTERNAL
	unavailable outcome = "away"    // the limiter could not decide: 503, UNAVAILABLE
	ended       outcome = "ended"   // the caller's context has ended: 499 without Retry-After, its status
	invalid     outcome = "invalid" // an error from New
)

// scene configures all three: up to two policies, with one key for all.
type scene struct {
	limits  []slidegate.Limit // of each policy
	several bool              // two policies match every request
	match   string            // HTTP only
	host    string            // of the request
	path    string
	cost    *int64
	plan    *policy.Plan // of the middleware and the interceptors; files have none
	over    func(store.Store) store.Store
	ended   bool
}

// newSide creates one of the three: the middleware, the interceptors or the service.
type newSide func(t *testing.T, s *scene, on store.Store) (send func() outcome, counted func() int)

// limitsOf returns n limits per hour with the given quota and different names.
func limitsOf(n int, quota int64) (limits []slidegate.Limit) {
	for i := range n {
		limits = append(limits, slidegate.Limit{Name: "l" + strconv.Itoa(i), Quota: quota, Window: 3600e9})
	}
	return limits
}

func (s *scene) context(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if s.ended {
		cancel()
	}
	return ctx
}

func (s *scene) request(t *testing.T) *http.Request {
	r := httptest.NewRequest("GET", "http://h.example"+s.path, nil).WithContext(s.context(t))
	if s.host != "" {
		r.Host = s.host
	}
	return r
}

func httpSide(t *testing.T, s *scene, on store.Store) (func() outcome, func() int) {
	events := 0
	opts := httplimit.Options{OnDecision: func(*http.Request, httplimit.Event) { events++ }}
	for _, name := range []string{"one", "two"} {
		p := httplimit.Policy{Name: name, Match: s.match, Key: httplimit.Global(), Limits: s.limits}
		if s.cost != nil {
			p.Cost = func(*http.Request) int64 { return *s.cost }
		}
		if s.plan != nil {
			p.Plan = func(*http.Request) (policy.Plan, error) { return *s.plan, nil }
		}
		opts.Policies = append(opts.Policies, p)
		if !s.several {
			break
		}
	}
	limiter, err := slidegate.New(on)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(limiter, opts)
	if err != nil {
		return func() outcome { return invalid }, nil
	}
	return func() outcome {
		served := false
		w := httptest.NewRecorder()
		m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(w, s.request(t))
		return outcomeOf(t, w, served, s.ended)
	}, func() int { return events }
}

const statusClientLeft = 499

func outcomeOf(t *testing.T, w *httptest.ResponseRecorder, served, wasEnded bool) outcome {
	t.Helper()
	retry := w.Header().Get("Retry-After")
	switch {
	case served && w.Code == http.StatusOK:
		return passed
	case served:
	case w.Code == http.StatusTooManyRequests:
		return limited
	case w.Code == http.StatusForbidden:
		return refused
	case w.Code == http.StatusInternalServerError:
		return broken
	case w.Code == statusClientLeft && wasEnded && retry == "":
		return ended
	case w.Code == http.StatusServiceUnavailable:
		return unavailable
	}
	t.Fatalf("served is %t, and the status %d with Retry-After %q; want a known outcome: served with 200, or not with 429, 403, 499, 500 or 503", served, w.Code, retry)
	return ""
}

func grpcSide(t *testing.T, s *scene, on store.Store) (func() outcome, func() int) {
	events := 0
	opts := grpclimit.Options{OnDecision: func(context.Context, grpclimit.Event) { events++ }}
	for _, name := range []string{"one", "two"} {
		p := grpclimit.Policy{Name: name, Key: grpclimit.Global(), Limits: s.limits}
		if s.cost != nil {
			p.Cost = func(context.Context, string, any) int64 { return *s.cost }
		}
		if s.plan != nil {
			p.Plan = func(context.Context, string) (policy.Plan, error) { return *s.plan, nil }
		}
		opts.Policies = append(opts.Policies, p)
		if !s.several {
			break
		}
	}
	limiter, err := slidegate.New(on)
	if err != nil {
		t.Fatal(err)
	}
	i, err := grpclimit.New(limiter, opts)
	if err != nil {
		return func() outcome { return invalid }, nil
	}
	return func() outcome {
		served := false
		_, err := i.Unary()(s.context(t), nil, &grpc.UnaryServerInfo{FullMethod: "/test.Echo/Say"},
			func(context.Context, any) (any, error) { served = true; return nil, nil })
		switch code := status.Code(err); {
		case served && code == codes.OK:
			return passed
		case served:
			t.Fatalf("the handler was called, and the status is %v, want OK", code)
		case code == codes.ResourceExhausted:
			return limited
		case code == codes.PermissionDenied:
			return refused
		case code == codes.Internal:
			return broken
		case code == codes.Canceled:
			return ended
		}
		return unavailable
	}, func() int { return events }
}

func gateSide(t *testing.T, s *scene, on store.Store) (func() outcome, func() int) {
	file := &config.File{}
	key, err := fields.ParseTemplate("all/{key}")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		p := config.Policy{Name: name, Match: config.Routes(s.match), Key: key, Limits: s.limits}
		if s.cost != nil {
			if p.Cost, err = fields.ParseCost(map[int64]string{0: "0", 1: "1"}[*s.cost]); err != nil {
				t.Fatal(err)
			}
		}
		file.Policies = append(file.Policies, p)
		if !s.several {
			break
		}
	}
	reader, provider := instrumenttest.New()
	g, err := gate.New(file, on, gate.Options{Requests: true, MeterProvider: provider})
	if err != nil {
		return func() outcome { return invalid }, nil
	}
	t.Cleanup(func() { _ = g.Close() })
	return func() outcome {
		r := s.request(t)
		v, err := g.CheckRequest(r.Context(), r)
		switch {
		case err != nil && r.Context().Err() != nil:
			return ended
		case errors.Is(err, store.ErrUnsupported):
			return broken
		case err != nil:
			return unavailable
		case v.Decision.Allowed:
			return passed
		}
		return limited
	}, func() int { return decisions(t, reader) / len(file.Policies) }
}

// decisions returns the number of decisions that the gate has counted.
func decisions(t *testing.T, reader *instrumenttest.Reader) (sum int) {
	for name, n := range reader.Read(t) {
		if strings.HasPrefix(name, "policy.decisions{") {
			sum += int(n)
		}
	}
	return sum
}

// contextStore checks the context of its caller, as stores over a network do.
type contextStore struct{ store.Store }

func (l contextStore) Apply(ctx context.Context, batch []store.Request) error {
	if err := ctx.Err(); err != nil {
		for i := range batch {
			batch[i].Err = err
		}
		return err
	}
	return l.Store.Apply(ctx, batch)
}

func (l contextStore) Traits() store.Traits {
	traits := l.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

// scatteredStore is a store of several nodes, which does not support more than one charge per request.
type scatteredStore struct{ store.Store }

func (s scatteredStore) Apply(ctx context.Context, batch []store.Request) error {
	var first error
	for i := range batch {
		if batch[i].Err = store.ErrUnsupported; len(batch[i].Charges) == 1 {
			_ = s.Store.Apply(ctx, batch[i:i+1])
		}
		if first == nil {
			first = batch[i].Err
		}
	}
	return first
}

// TestSidesAgree covers cases that once differed: each row has the outcomes of consecutive requests on all three.
func TestSidesAgree(t *testing.T) {
	zero, one := int64(0), int64(1)
	wrong, none := policy.Limits(slidegate.Limit{Quota: -1}), policy.Limits()
	unlimited, nothing := policy.Unlimited(), policy.Refused()
	for _, row := range []struct {
		name   string
		scene  scene
		want   []outcome
		sides  string // the sides that the row applies to: http, grpc, gate
		events int    // the number of decisions reported, where they are observed; -1 if it does not matter
	}{
		{"a host", scene{limits: limitsOf(1, 1), match: "h.example/"}, []outcome{passed, limited}, "http gate", 2},
		{"a host in capitals", scene{limits: limitsOf(1, 1), match: "h.example/", host: "H.Example"}, []outcome{passed, limited}, "http gate", 2},
		{"a host with a dot", scene{limits: limitsOf(1, 1), match: "h.example/", host: "h.example."}, []outcome{passed, limited}, "http gate", 2},
		{"a host with all", scene{limits: limitsOf(1, 1), match: "h.example/", host: "H.example.:8080"}, []outcome{passed, limited}, "http gate", 2},
		{"a pattern in capitals", scene{limits: limitsOf(1, 1), match: "H.Example./"}, []outcome{passed, limited}, "http gate", 2},
		{"another host", scene{limits: limitsOf(1, 1), match: "h.example/", host: "www.h.example"}, []outcome{passed, passed}, "http gate", 0},
		{"an encoded slash", scene{limits: limitsOf(1, 1), match: "/admin/", path: "/admin%2Fusers"}, []outcome{passed, limited}, "http gate", 2},
		{"encoded dots", scene{limits: limitsOf(1, 1), match: "/admin/", path: "/x/..%2Fadmin/"}, []outcome{passed, limited}, "http gate", 2},
		{"another path", scene{limits: limitsOf(1, 1), match: "/admin/", path: "/admins"}, []outcome{passed, passed}, "http gate", 0},
		{"cost 1", scene{limits: limitsOf(1, 1), cost: &one}, []outcome{passed, limited}, "http grpc gate", 2},
		{"cost 0", scene{limits: limitsOf(1, 1), cost: &zero}, []outcome{passed, passed, passed}, "http grpc gate", 3},
		// OnDecision is called for every request. The gate counts decisions, and a caller that has gone gets none.
		{"an ended context", scene{limits: limitsOf(1, 1), ended: true, over: func(s store.Store) store.Store { return contextStore{s} }},
			[]outcome{ended, ended}, "http grpc", 2},
		{"an ended context", scene{limits: limitsOf(1, 1), ended: true, over: func(s store.Store) store.Store { return contextStore{s} }},
			[]outcome{ended, ended}, "gate", 0},
		{"an ended context, several policies", scene{limits: limitsOf(1, 1), several: true, ended: true, over: func(s store.Store) store.Store { return contextStore{s} }},
			[]outcome{ended, ended}, "http grpc", 2},
		{"an ended context, several policies", scene{limits: limitsOf(1, 1), several: true, ended: true, over: func(s store.Store) store.Store { return contextStore{s} }},
			[]outcome{ended, ended}, "gate", 0},
		{"as much as the store decides at once", scene{limits: limitsOf(32, 1), several: true}, []outcome{passed, limited}, "http grpc", 4},
		{"as much as the store decides at once", scene{limits: limitsOf(32, 1), several: true}, []outcome{passed, limited}, "gate", 2},
		{"more than the store decides at once", scene{limits: limitsOf(33, 1), several: true}, []outcome{invalid}, "http grpc gate", -1},
		{"more, on some paths only", scene{limits: limitsOf(33, 1), several: true, match: "GET /items/{id}/"}, []outcome{invalid}, "http gate", -1},
		{"more than one node can decide", scene{limits: limitsOf(1, 5), several: true, over: func(s store.Store) store.Store { return scatteredStore{s} }},
			[]outcome{broken, broken}, "http grpc gate", 2},
		{"a plan with an invalid limit", scene{limits: limitsOf(1, 1), plan: &wrong}, []outcome{broken, broken}, "http grpc", 2},
		{"a plan of nothing", scene{limits: limitsOf(1, 1), plan: &none}, []outcome{broken, broken}, "http grpc", 2},
		{"a plan without limits", scene{limits: limitsOf(1, 1), plan: &unlimited}, []outcome{passed, passed}, "http grpc", 2},
		{"a plan that admits nothing", scene{limits: limitsOf(1, 1), plan: &nothing}, []outcome{refused, refused}, "http grpc", 2},
	} {
		for name, side := range map[string]newSide{"http": httpSide, "grpc": grpcSide, "gate": gateSide} {
			if !strings.Contains(row.sides, name) {
				continue
			}
			t.Run(row.name+"/"+name, func(t *testing.T) {
				var on store.Store
				memory, err := memstore.New(memstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if on = memory; row.scene.over != nil {
					on = row.scene.over(on)
				}
				s := row.scene
				if s.path == "" {
					s.path = "/"
				}
				send, counted := side(t, &s, on)
				for i, want := range row.want {
					if got := send(); got != want {
						t.Errorf("request %d: got %s, want %s", i+1, got, want)
					}
				}
				if counted != nil && row.events >= 0 && counted() != row.events {
					t.Errorf("got %d reported decisions, want %d", counted(), row.events)
				}
			})
		}
	}
}
