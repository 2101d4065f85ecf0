package line_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

var errAway = errors.New("the store is away")

// fragile is a store that counts its calls, can be away, and may have round trips.
type fragile struct {
	store.Store
	trips int
	away  func() bool
	calls atomic.Int64
}

func (f *fragile) Unwrap() store.Store { return f.Store }

func (f *fragile) Traits() store.Traits {
	traits := f.Store.Traits()
	traits.RoundTrips = f.trips
	return traits
}

func (f *fragile) Apply(ctx context.Context, batch []store.Request) error {
	f.calls.Add(1)
	if f.away() {
		return errAway
	}
	return f.Store.Apply(ctx, batch)
}

// visit is a caller of a play: it comes, waits, and perhaps leaves.
type visit struct {
	at, leaves time.Duration // since the play began; leaves is 0 if it is patient
	cost       int64
}

// outcome is what became of a visit, and when.
type outcome struct {
	at  time.Duration
	err error
}

// happening is what else happens in a play.
type happening struct {
	at    time.Duration
	reset bool  // otherwise other callers use units
	units int64 // that are charged
}

type play struct {
	limit      slidegate.Limit
	trips      int
	visits     []visit // by time
	happenings []happening
	away       [2]time.Duration // the store is away from the first until the second
}

var texts = []string{
	"5/1s token-bucket burst=1", "7/1s token-bucket", "5/1s sliding-log", "20/1s", "150/1s", "9/1s fixed-window",
	"8/1s sliding-window segments=4 overlap=whole", "6/1s sliding-window",
}

// randomPlay returns a play in which no two things happen at the same time.
func randomPlay(random *rand.Rand) *play {
	p := &play{limit: slidegate.MustParseLimit(texts[random.IntN(len(texts))]), trips: random.IntN(2)}
	var last time.Duration
	moment := func(within time.Duration) time.Duration {
		last += time.Duration(1+random.Int64N(within.Microseconds()))*time.Microsecond + time.Duration(1+random.IntN(900))
		return last
	}
	within := []time.Duration{time.Microsecond, 10 * time.Millisecond, 200 * time.Millisecond}[random.IntN(3)]
	for range 3 + random.IntN(40) {
		v := visit{at: moment(within), cost: 1}
		switch random.IntN(10) {
		case 0, 1:
			v.cost = 1 + random.Int64N(p.limit.Quota)
			if p.limit.Burst == 1 {
				v.cost = 1
			}
		case 2, 3:
			v.leaves = v.at + time.Duration(random.Int64N(int64(3*time.Second)))
		}
		p.visits = append(p.visits, v)
		if random.IntN(12) == 0 {
			p.happenings = append(p.happenings, happening{at: moment(within), reset: true})
		}
		if p.trips == 0 && random.IntN(12) == 0 { // over round trips this process would let others go first
			p.happenings = append(p.happenings, happening{at: moment(within), units: 1 + random.Int64N(p.limit.Quota)})
		}
	}
	if len(p.happenings) == 0 && random.IntN(3) == 0 {
		p.away[0] = time.Duration(random.Int64N(int64(2 * time.Second)))
		p.away[1] = p.away[0] + time.Duration(random.Int64N(int64(time.Second)))
	}
	return p
}

// run plays p with the real line, and returns what became of each visit, and how many calls the store got.
func (p *play) run(t *testing.T) (results []outcome, calls int64) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		on := &fragile{Store: memory, trips: p.trips, away: func() bool {
			now := time.Since(start)
			return p.away[0] <= now && now < p.away[1]
		}}
		limiter := slidegate.MustNew(on, p.limit)
		results = make([]outcome, len(p.visits))
		var all sync.WaitGroup
		for i, v := range p.visits {
			all.Go(func() {
				time.Sleep(v.at)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if v.leaves > 0 {
					defer time.AfterFunc(v.leaves-v.at, cancel).Stop()
				}
				err := limiter.Wait(ctx, "k", v.cost)
				results[i] = outcome{time.Since(start), err}
			})
		}
		direct := slidegate.MustNew(memory, p.limit)
		for _, h := range p.happenings {
			all.Go(func() {
				time.Sleep(h.at)
				var err error
				if h.reset {
					err = direct.Reset(t.Context(), "k")
				} else {
					_, err = direct.Charge(t.Context(), "k", h.units)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		calls = on.calls.Load()
	})
	return results, calls
}

// expect works out what should become of each visit, by a store that is asked again and again.
func (p *play) expect(t *testing.T) []outcome {
	clock := storetest.NewClock(0)
	origin := rule.Micros(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()) // when bubbles begin
	limiter := slidegate.MustNew(storetest.NewReference(clock), p.limit)
	results := make([]outcome, len(p.visits))
	var inLine []int
	come, happen, failures := 0, 0, 0
	var now, due time.Duration
	for come < len(p.visits) || len(inLine) > 0 || happen < len(p.happenings) {
		// What happens next?
		next := time.Duration(1 << 62)
		if come < len(p.visits) {
			next = min(next, p.visits[come].at)
		}
		if happen < len(p.happenings) {
			next = min(next, p.happenings[happen].at)
		}
		if len(inLine) > 0 {
			next = min(next, due)
		}
		for _, i := range inLine {
			if leaves := p.visits[i].leaves; leaves > 0 {
				next = min(next, leaves)
			}
		}
		now = max(now, next)
		clock.Set(origin + rule.Micros(now.Microseconds()))
		if happen < len(p.happenings) && p.happenings[happen].at == now {
			if h := p.happenings[happen]; h.reset {
				limiter.Reset(t.Context(), "k")
				due = now
			} else if _, err := limiter.Charge(t.Context(), "k", h.units); err != nil {
				t.Fatal(err)
			}
			happen++
		}
		if come < len(p.visits) && p.visits[come].at == now {
			if inLine = append(inLine, come); len(inLine) == 1 {
				due, failures = now, 0
			}
			come++
		}
		for k := 0; k < len(inLine); k++ {
			if i := inLine[k]; p.visits[i].leaves > 0 && p.visits[i].leaves <= now {
				results[i] = outcome{now, context.Canceled}
				if k == 0 && len(inLine) > 1 && p.visits[inLine[1]].cost != p.visits[i].cost {
					due = now
				}
				inLine = slices.Delete(inLine, k, k+1)
				k--
			}
		}
		for len(inLine) > 0 && due <= now {
			first := inLine[0]
			if p.away[0] <= now && now < p.away[1] {
				results[first] = outcome{now, errAway}
				inLine = inLine[1:]
				if failures++; failures < 3 {
					due = now + time.Duration(failures*failures)*10*time.Millisecond
					continue
				}
				for _, i := range inLine {
					results[i] = outcome{now, errAway}
				}
				inLine = nil
				continue
			}
			d, err := limiter.AllowN(t.Context(), "k", p.visits[first].cost)
			if err != nil {
				t.Fatal(err)
			}
			failures = 0
			if !d.Allowed {
				due = now + d.RetryAfter
				break
			}
			results[first] = outcome{now, nil}
			inLine = inLine[1:]
		}
	}
	return results
}

// Whatever callers do, whatever else happens, and whether or not the store fails meanwhile: everybody is served in turn, and at the moment at
// which a store that is asked all the time would admit the first in line.
func TestPlays(t *testing.T) {
	plays := 2000
	if testing.Short() {
		plays = 400
	}
	for seed := range uint64(plays) {
		p := randomPlay(rand.New(rand.NewPCG(seed, 36)))
		want := p.expect(t)
		got, calls := p.run(t)
		for i := range want {
			if late := got[i].at - want[i].at; late < -2*time.Microsecond || late > 2*time.Microsecond || !errors.Is(got[i].err, want[i].err) {
				t.Fatalf("seed %d, %v, %d trips: visit %d (%+v): got %v, want %v\n%s", seed, p.limit, p.trips, i, p.visits[i], got[i], want[i], p.table(got, want))
			}
		}
		if most := int64(2*len(p.visits) + 2*len(p.happenings) + 3 + int(16*want[len(want)-1].at/time.Second)); calls > most {
			t.Errorf("seed %d: %d calls for %d visits, want at most %d", seed, calls, len(p.visits), most)
		}
	}
}

func (p *play) table(got, want []outcome) (text string) {
	for i, v := range p.visits {
		text += fmt.Sprintf("%3d at %v cost %d leaves %v: got %v, want %v\n", i, v.at, v.cost, v.leaves, got[i], want[i])
	}
	for _, h := range p.happenings {
		text += fmt.Sprintf("%+v\n", h)
	}
	return text + fmt.Sprintf("away %v", p.away)
}

// A store that panics does not stop the line: the panic reaches the caller for whom it was asked.
func TestPanicOfTheStore(t *testing.T) {
	for trips := range 2 {
		synctest.Test(t, func(t *testing.T) {
			memory, err := memstore.New(memstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var panics atomic.Bool
			on := &fragile{Store: memory, trips: trips, away: func() bool {
				if panics.Swap(false) {
					panic("broken")
				}
				return false
			}}
			limiter := slidegate.MustNew(on, slidegate.MustParseLimit("1/1s token-bucket"))
			var all sync.WaitGroup
			var recovered, served atomic.Int64
			for range 4 {
				all.Go(func() {
					defer func() {
						if recover() != nil {
							recovered.Add(1)
						}
					}()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if err := limiter.Wait(ctx, "k", 1); err != nil {
						t.Error(err)
					}
					served.Add(1)
				})
				synctest.Wait()
			}
			panics.Store(true)
			all.Wait()
			if recovered.Load() != 1 || served.Load() != 3 {
				t.Errorf("%d round trips: %d panics and %d served, want 1 and 3", trips, recovered.Load(), served.Load())
			}
		})
	}
}
