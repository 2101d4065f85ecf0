package lease_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/leases"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

var (
	playsFlag = flag.Int("plays", 30_000, "how many spends of leased units to replay through the rule")
	seedFlag  = flag.Uint64("seed", 0, "the seed of the first play; 0 means a random seed")
)

// totals sums up all plays.
type totals struct {
	mu          sync.Mutex
	kinds       map[string]*tallyOfPlay
	disturbance map[string]*tallyOfPlay
	plays       int
	events      map[string]int64
}

// TestPlays runs processes that lease at random, and replays every spend through the rule.
func TestPlays(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	var next atomic.Uint64
	next.Store(seed)
	sum := totals{kinds: map[string]*tallyOfPlay{}, disturbance: map[string]*tallyOfPlay{}, events: map[string]int64{}}
	most := *playsFlag
	if testkit.Race {
		most /= 10 // it takes ten times as long
	}
	t.Run("all", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for sum.leased() < most && !t.Failed() {
					seed := next.Add(1) - 1
					synctest.Test(t, func(t *testing.T) { play(t, seed, &sum) })
				}
			})
		}
	})
	t.Logf("from seed %d on:\n%s", seed, sum.table())
}

func (s *totals) leased() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.kinds {
		n += t.leased
	}
	return n
}

func (s *totals) add(w *world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plays++
	for name, n := range w.events {
		s.events[name] += n
	}
	for kind, t := range w.spends {
		for _, to := range []*tallyOfPlay{entry(s.kinds, kind), entry(s.disturbance, w.disturbance.String())} {
			to.leased += t.leased
			to.direct += t.direct
			to.refused += t.refused
		}
	}
}

func entry(in map[string]*tallyOfPlay, name string) *tallyOfPlay {
	if in[name] == nil {
		in[name] = &tallyOfPlay{}
	}
	return in[name]
}

func (s *totals) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d plays", s.plays)
	for _, name := range slices.Sorted(maps.Keys(s.events)) {
		fmt.Fprintf(&b, ", %d %s", s.events[name], name)
	}
	fmt.Fprintln(&b)
	for _, m := range []map[string]*tallyOfPlay{s.kinds, s.disturbance} {
		fmt.Fprintf(&b, "%-32s %12s %12s %12s\n", "", "leased", "straight", "had been leased")
		for _, name := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "%-32s %12d %12d %12d\n", name, m[name].leased, m[name].direct, m[name].refused)
		}
	}
	return b.String()
}

// play runs one play.
func play(t *testing.T, seed uint64, sum *totals) {
	w := newWorld(t, seed)
	var processes sync.WaitGroup
	for range 1 + w.rand.IntN(4) {
		processes.Go(w.process)
	}
	processes.Wait()
	w.late.Wait()
	testkit.Pass(5 * time.Second) // the layers of dead processes forget their keys
	sum.add(w)
	for i, wrong := range w.wrong {
		if i == 3 {
			t.Errorf("and %d more", len(w.wrong)-i)
			break
		}
		t.Errorf("seed %d, with %v: %s", seed, w.disturbance, wrong)
	}
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, seed: seed, rand: rand.New(&lockedSource{source: rand.NewPCG(seed, 17)}), began: time.Now(), clock: &storetest.Clock{}}
	w.store = storetest.NewReference(w.clock)
	w.disturbance = pick(w.rand, nothing, nothing, nothing, nothing, forced, plans, resets, refunds)
	w.judge = judge{
		now: w.storeNow, clean: w.disturbance == nothing,
		written: map[*store.Limit]rule.Limit{}, accounts: map[address]*account{}, values: map[string][]*store.Limit{},
		kinds: map[string]string{}, spends: map[string]*tallyOfPlay{}, events: map[string]int64{},
	}
	w.faults = pick(w.rand,
		faults{usual: time.Microsecond},
		faults{usual: 2 * time.Millisecond, slow: 20},
		faults{usual: 5 * time.Millisecond, slow: 100, lost: 50, never: 20, dies: 10},
		faults{usual: 300 * time.Millisecond, lost: 10},
	)
	values := 1
	if w.disturbance == plans {
		values = 2 + w.rand.IntN(2)
	}
	for i := range 1 + w.rand.IntN(3) {
		l := w.randomLimit(fmt.Sprint("limit ", i), values)
		w.limits = append(w.limits, l)
		w.values[l.values[0].Prefix()], w.kinds[l.values[0].Prefix()] = l.values, l.kind
	}
	w.setClock()
	return w
}

// setClock sets the store's clock to shortly before the end of a part.
func (w *world) setClock() {
	start := rule.Micros(time.Now().UnixMicro()) + rule.Micros(w.rand.Int64N(1e15))
	r := w.limits[0].values[0].Rule()
	if hasParts(r) {
		_, end := leases.Part(r, start)
		start = max(start, end-rule.Micros(w.rand.Int64N(2_000_000)))
	}
	w.ahead = time.Duration(start-rule.Micros(time.Now().UnixMicro()))*time.Microsecond + time.Duration(w.rand.IntN(1000))
}

// hasParts reports whether a limit counts by parts that begin at multiples of their length, or by one.
func hasParts(r *rule.Limit) bool {
	switch r.Algorithm {
	case rule.DefaultAlgorithm, rule.SlidingWindow, rule.FixedWindow:
		return r.Anchor == rule.AnchorClock
	}
	return false
}

// process runs a process, and replaces it when it dies, until the play is over.
func (w *world) process() {
	for !w.over.Load() {
		p := w.newProcess()
		var callers sync.WaitGroup
		for range 1 + w.rand.IntN(6) {
			callers.Go(func() { p.call() })
		}
		callers.Wait()
		if p.dead.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := p.lease.Close(ctx); err != nil {
			w.t.Errorf("seed %d: Close: %v", w.seed, err)
		}
		cancel()
	}
}
