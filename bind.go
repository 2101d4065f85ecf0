package slidegate

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/store"
)

// Bind checks a limit and gives it its place in a namespace, as stores and layers need it. A Limiter does so by itself.
func Bind(namespace string, limit Limit) (*store.Limit, error) {
	r, err := limit.compile()
	if err != nil {
		return nil, err
	}
	label := limit.Name
	if label == "" {
		label = limit.String()
	}
	return store.Bind(namespace, limit.Name, label, r), nil
}

// Unbind returns the limit that b was made of, with what it leaves to defaults left out.
func Unbind(b *store.Limit) Limit {
	r := b.Rule()
	l := Limit{
		Name: b.Name(), Quota: r.Quota, Window: r.Window.Duration(), Algorithm: r.Algorithm,
		Segments: r.Segments, Overlap: r.Overlap, Anchor: r.Anchor, CountDenied: r.CountDenied, Burst: r.Burst,
	}
	if l.Segments == 1 {
		l.Segments = 0
	}
	if l.Burst == l.Quota {
		l.Burst = 0
	}
	return l
}

// boundLimits remembers what Bind made of limits, so that limits given per call cost a map look-up.
type boundLimits struct {
	namespace string
	store     store.Store

	known atomic.Pointer[map[Limit]*store.Limit] // read without a lock, so never written to

	mu     sync.Mutex
	all    map[Limit]*store.Limit // what is known, and what came since
	misses int                    // how often something was looked for in all that is not known
}

// maxBound is how many limits are remembered; further ones still work and are bound anew at each call.
const maxBound = 4096

func (b *boundLimits) bind(limit Limit) (*store.Limit, error) {
	if known := b.known.Load(); known != nil {
		if bound, ok := (*known)[limit]; ok {
			return bound, nil
		}
	}
	if bound, ok := b.recall(limit); ok {
		return bound, nil
	}
	bound, err := Bind(b.namespace, limit)
	if err != nil {
		return nil, err
	}
	if err := b.store.Check(bound); err != nil {
		return nil, err
	}
	return b.remember(limit, bound), nil
}

// recall finds a limit that is not known yet. All become known when as many were recalled as there are to be copied: a
// copy for each new limit would cost more, the more there are.
func (b *boundLimits) recall(limit Limit) (bound *store.Limit, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, ok = b.all[limit]
	if !ok {
		return nil, false
	}
	if b.misses++; b.misses >= len(b.all) {
		known := maps.Clone(b.all)
		b.known.Store(&known)
		b.misses = 0
	}
	return bound, true
}

func (b *boundLimits) remember(limit Limit, bound *store.Limit) *store.Limit {
	b.mu.Lock()
	defer b.mu.Unlock()
	if earlier, ok := b.all[limit]; ok {
		return earlier
	}
	if b.all == nil {
		b.all = map[Limit]*store.Limit{}
	}
	if len(b.all) < maxBound {
		b.all[limit] = bound
	}
	return bound
}
