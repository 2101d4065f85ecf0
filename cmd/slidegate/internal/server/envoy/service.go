package envoy

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/store"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// Options are the choices of a Service. The zero value answers as the original does by default.
type Options struct {
	// Logger is told of reloads. nil means none.
	Logger *slog.Logger
	// MeterProvider is where the metrics go. nil means the global one.
	MeterProvider metric.MeterProvider
	// ResponseHeaders adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to the response that the client gets, and
	// Retry-After when it is refused.
	ResponseHeaders bool
	// RequestHeaders adds the first three of them to the request that goes upstream.
	RequestHeaders bool
	// DynamicMetadata fills the field of that name: domain, descriptors and the metadata of the rules that are under their
	// limits. It contains what the descriptors say, as Envoy sent it.
	DynamicMetadata bool
	// ClosedIsError makes an error of what the store's failure policy refused because the store gave no answer, as the original
	// does. Envoy then does as its failure_mode_deny says.
	ClosedIsError bool
	// Shadow makes every answer OK, whatever the limits say; the statuses still tell.
	Shadow bool
	// Quota puts every rule in quota mode: over its limit, it refuses a request only if all rules of the request are.
	Quota bool
	// MaxWindows is how many different windows the limits that come with descriptors may have over the life of the service, those
	// of one unit aside: each is a shape of limits, and a store keeps something for each. A descriptor with a further one is over
	// its limit. 0 means 64.
	MaxWindows int
	// Await says that rules are still to come, from a management server: until Arrived is called, the service is not healthy, and
	// requests about domains that are not known are errors, so that Envoy does as its failure_mode_deny says.
	Await bool
	// OnRefused is called with every descriptor that is over its limit, also where a rule or the service only watches: the domain after
	// rulings.EnvoyPrefix, the text of the descriptor, and what its rule is called. It must be quick and safe for concurrent use. nil
	// means that nobody is told.
	OnRefused func(policy, descriptor, rule string)
}

// maxWindows is what Options.MaxWindows is if it is 0.
const maxWindows = 64

// Service is Envoy's rate limit service. It is safe for concurrent use. The zero value is not usable; New makes it.
type Service struct {
	rls.UnimplementedRateLimitServiceServer

	store   store.Store
	opts    Options
	most    int // descriptors in a request that is charged all or nothing
	metrics *metrics
	binder  *binder
	windows *windows
	health  *health.Server
	drained atomic.Bool
	waiting atomic.Bool // for rules; see Options.Await
	work    sync.Pool   // of *work

	reload  sync.Mutex
	domains atomic.Pointer[map[string]*domain]
	ruled   atomic.Pointer[ruledTable] // nil if there are no rulings
	table   *rulings.Table             // that ruled was made of; guarded by reload
	release func()                     // gives back the room in the store that the domains have; guarded by reload
}

var _ rls.RateLimitServiceServer = (*Service)(nil)

// healthNames are what Envoy and others ask the health of: the whole server, the name that the original uses, and ours.
var healthNames = []string{"", "ratelimit", rls.RateLimitService_ServiceDesc.ServiceName}

// New returns a service over a store. Domains of one name are put together, as Merge does.
func New(st store.Store, domains []*Domain, opts Options) (*Service, error) {
	if st == nil {
		return nil, errors.New("envoy: store: must not be nil; memstore.New makes one")
	}
	m, err := newMetrics(opts.MeterProvider)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxWindows < 0 {
		return nil, fmt.Errorf("envoy: MaxWindows: must not be negative, but is %d; 0 means %d", opts.MaxWindows, maxWindows)
	}
	if opts.MaxWindows == 0 {
		opts.MaxWindows = maxWindows
	}
	s := &Service{
		store: st, opts: opts, metrics: m, health: health.NewServer(),
		most:   min(MaxDescriptors, st.Traits().MaxCharges),
		binder: &binder{store: st, quota: opts.Quota, known: map[binding]*store.Limit{}}, windows: &windows{most: opts.MaxWindows, known: map[time.Duration]struct{}{}},
	}
	s.work.New = func() any { return new(work) }
	if err := s.Reload(domains); err != nil {
		return nil, err
	}
	s.waiting.Store(opts.Await)
	if opts.Await {
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

// Arrived ends what Options.Await began.
func (s *Service) Arrived() {
	if s.waiting.Swap(false) {
		s.setHealth(healthpb.HealthCheckResponse_SERVING) // which does nothing after Drain
	}
}

// Waiting reports whether rules that are still to come have not arrived.
func (s *Service) Waiting() bool { return s.waiting.Load() }

// Reload puts other domains in service, all or, if there is an error, none. Counts are kept where a limit's algorithm, window,
// segments and anchor are what they were, and the domain is charged as it was.
func (s *Service) Reload(domains []*Domain) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	for _, given := range domains {
		if given == nil || given.name == "" {
			return invalid("domains", "must come from Parse, and none may be nil")
		}
	}
	domains, err := Merge(domains)
	if err != nil {
		return err
	}
	next := make(map[string]*domain, len(domains))
	for _, given := range domains {
		if given.charging == ChargeAll && s.most < 2 {
			return invalid("domains", "%s: charging: %w: the store %s cannot charge several descriptors at once; write each",
				given.at, store.ErrUnsupported, s.store.Traits().Name)
		}
		if traits := s.store.Traits(); given.charging == ChargeAll && traits.OneKey {
			s.opts.Logger.Warn("envoy: charging: all keeps all counts of the domain in one entry of the store, which has room for a few thousand and is changed by one "+
				"process at a time; use it for small domains, or write each", "domain", given.name, "store", traits.Name)
		}
		made, err := s.domain(given)
		if err != nil {
			return err
		}
		next[given.name] = made
	}
	release := prepare(s.store, next)
	before := s.domains.Swap(&next)
	s.ruleLocked()
	if s.release != nil {
		s.release()
	}
	s.release = release
	if len(next) == 0 && (before == nil || len(*before) == 0) {
		return nil // nobody asked for any
	}
	s.opts.Logger.Info("envoy: domains are in service", "domains", len(next))
	return nil
}

// Register adds the service to a gRPC server, with the health service and reflection, before it serves.
func (s *Service) Register(server *grpc.Server) {
	rls.RegisterRateLimitServiceServer(server, s)
	healthpb.RegisterHealthServer(server, s.health)
	reflection.Register(server)
}

// Drain tells those who ask for the service's health that it is about to end. It still answers.
func (s *Service) Drain() {
	s.drained.Store(true)
	s.health.Shutdown()
}

// invalid returns the error of an argument or an option of New.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "envoy", Option: option, Err: fmt.Errorf(format, args...)}
}
