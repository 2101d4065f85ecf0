package envoy

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/windows"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Service. The zero value behaves like the original by default.
type Options struct {
	// Logger receives reloads; nil discards them.
	Logger *slog.Logger
	// MeterProvider receives the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
	// ResponseHeaders adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to the client's response, and
	// Retry-After if it is refused.
	ResponseHeaders bool
	// RequestHeaders adds the first three of them to the upstream request.
	RequestHeaders bool
	// DynamicMetadata fills the field of that name: the domain, the descriptors and the metadata of the rules that are
	// under their limits. It contains the descriptors as Envoy sent them.
	DynamicMetadata bool
	// ClosedIsError returns an error if the store did not answer and the failure mode refused, as the original does.
	// Envoy then follows its failure_mode_deny.
	ClosedIsError bool
	// Shadow makes the overall code always OK; the statuses still report the limits.
	Shadow bool
	// Quota puts every rule in quota mode: over its limit, it refuses a request only if all rules of the request are
	// over theirs. As in the original, a descriptor without a rule counts as one that is not over.
	Quota bool
	// Await means that a management server will send the rules. Until RulesReceived is called, the service is not healthy,
	// and requests about unknown domains fail, so that Envoy follows its failure_mode_deny.
	Await bool
	// HealthyAtOnce makes health checks report, with Await, that the service is healthy before any rules have arrived, as the original
	// does: a management server that has no rules may never send any.
	HealthyAtOnce bool
	// OnRefused is called for every descriptor that is over its limit, even if the rule or the service is in shadow
	// mode. The policy is envoy: and the domain, and the key is the text of the descriptor. It must be
	// fast and safe for concurrent use. It may be nil.
	OnRefused func(gate.Refusal)
	// Seen remembers what was decided about descriptors, by the same names; nil remembers nothing.
	Seen *seen.Record
	// OnUnmatched is called for every request of which no descriptor matches a rule, such as one about an unknown domain. It may
	// be nil.
	OnUnmatched func()
}

// maxWindows is how many different windows one connection may have in use in limits that come with descriptors, not
// counting windows of one unit: those that it was the first to use and in which a count is not over. A store in
// memory keeps a table for each; with a store that is reached over a network there may be any number. All
// connections of a host together have half of what others leave of 2,048. A descriptor with a further window is
// over its limit.
const maxWindows = 64

// Service is Envoy's rate limit service. It is safe for concurrent use. The zero value is not usable; call New.
type Service struct {
	rls.UnimplementedRateLimitServiceServer

	store       store.Store
	opts        Options
	maxTogether int // maximum number of descriptors in a request that is charged all or nothing
	metrics     *metrics
	windows     *windows.Registry // of limits that come with descriptors; nil if there may be any number
	warned      warning           // about too many of them
	health      *health.Server
	drained     atomic.Bool
	waiting     atomic.Bool // no rules have been received yet; see Options.Await
	work        sync.Pool   // of *work

	reload  sync.Mutex
	domains atomic.Pointer[map[string]*domain]
	given   []*Domain // the domains as they were given, merged; guarded by reload
	release func()    // releases the capacity that the store holds for the domains; guarded by reload
}

var _ rls.RateLimitServiceServer = (*Service)(nil)

// healthNames lists the names in health checks: the whole server, the name that the original uses, and ours.
var healthNames = []string{"", "ratelimit", rls.RateLimitService_ServiceDesc.ServiceName}

// New returns a service over a store. Domains of the same name are merged, as by Merge.
func New(st store.Store, domains []*Domain, opts Options) (*Service, error) {
	if st == nil {
		return nil, errors.New("envoy: store: must not be nil; call memstore.New, for example")
	}
	m, err := newMetrics(opts.MeterProvider)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		store: st, opts: opts, metrics: m, health: health.NewServer(),
		maxTogether: min(MaxDescriptors, st.Traits().MaxCharges), release: func() {},
	}
	s.domains.Store(&map[string]*domain{})
	if st.Traits().RoundTrips == 0 { // a server keeps nothing for each
		s.windows = windows.New(maxWindows, nil)
	}
	s.work.New = func() any { return &work{lane: rand.Uint32()} }
	if err := s.Reload(domains); err != nil {
		return nil, err
	}
	s.waiting.Store(opts.Await)
	if s.Waiting() {
		s.setHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	} else {
		s.setHealth(healthpb.HealthCheckResponse_SERVING)
	}
	return s, nil
}

func (s *Service) setHealth(to healthpb.HealthCheckResponse_ServingStatus) {
	for _, name := range healthNames {
		s.health.SetServingStatus(name, to)
	}
}

// RulesReceived ends the wait that Options.Await began.
func (s *Service) RulesReceived() {
	if s.waiting.Swap(false) {
		s.setHealth(healthpb.HealthCheckResponse_SERVING) // does nothing after Drain
	}
}

// Waiting reports whether the service is not healthy because the awaited rules have not arrived yet.
func (s *Service) Waiting() bool { return s.waiting.Load() && !s.opts.HealthyAtOnce }

// Domains returns the domains in service.
func (s *Service) Domains() []*Domain {
	s.reload.Lock()
	defer s.reload.Unlock()
	return s.given
}

// Reload replaces the domains in service, all or nothing: on an error, nothing changes. Counts are kept if a limit's
// algorithm, window, segments and anchor and the domain's charging are unchanged. Domains of the same name are merged.
func (s *Service) Reload(domains []*Domain) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	for _, given := range domains {
		if given == nil || given.name == "" {
			return invalid("domains", "must come from Parse, and none may be nil")
		}
	}
	domains, err := Merge(domains)
	if err != nil || Equal(s.given, domains) {
		return err
	}
	next := make(map[string]*domain, len(domains))
	var limits []*store.Limit
	for _, given := range domains {
		if given.charging == ChargeAll && s.maxTogether < 2 {
			return invalid("domains", "%s: charging: %w: the store %s cannot charge several descriptors together; write each",
				given.at, store.ErrUnsupported, s.store.Traits().Name)
		}
		if traits := s.store.Traits(); given.charging == ChargeAll && traits.OneKey {
			s.opts.Logger.Warn("envoy: charging: all keeps all counts of the domain in one entry of the store, which has room for a few thousand and is changed by one "+
				"process at a time; use it for small domains, or write each", "domain", given.name, "store", traits.Name)
		}
		d, err := s.domain(given)
		if err != nil {
			return err
		}
		next[given.name], limits = d, append(limits, d.limits...)
	}
	release := gate.Prepare(s.store, limits) // so that limits from descriptors cannot use it up
	s.domains.Store(&next)
	s.release()
	s.release, s.given = release, domains
	s.opts.Logger.Info("envoy: domains in service", "domains", len(next))
	return nil
}

// Register adds the service to a gRPC server, with the health service and reflection. Call it before the server serves.
func (s *Service) Register(server *grpc.Server) {
	rls.RegisterRateLimitServiceServer(server, s)
	healthpb.RegisterHealthServer(server, s.health)
	reflection.Register(server)
}

// Drain reports in health checks that the service is shutting down. It still serves requests.
func (s *Service) Drain() {
	s.drained.Store(true)
	s.health.Shutdown()
}

// invalid returns the error of an argument or an option of New.
func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "envoy", Option: option, Err: fmt.Errorf(format, args...)}
}
