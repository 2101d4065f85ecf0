package line_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

// hasty is a caller with a deadline.
type hasty struct {
	at, deadline time.Duration // since the beginning
	cost         int64
}

// rush is a play in which callers with deadlines come while the limits are partly used.
type rush struct {
	limits []slidegate.Limit
	used   []int64 // charged one by one before, at equal distances
	every  time.Duration
	comers []hasty
}

func randomRush(random *rand.Rand) *rush {
	r := &rush{every: time.Duration(1+random.Int64N(200)) * time.Millisecond}
	least := int64(1 << 40)
	for i := range 1 + random.IntN(2) {
		limit := slidegate.MustParseLimit(texts[random.IntN(len(texts))])
		if random.IntN(2) == 0 {
			limit.Window *= 10
		}
		limit.Name = fmt.Sprint("limit-", i)
		r.limits = append(r.limits, limit)
		capacity := limit.Quota
		if limit.Burst > 0 {
			capacity = limit.Burst
		}
		least = min(least, capacity)
	}
	for range random.Int64N(2 * least) {
		r.used = append(r.used, 1)
	}
	last := time.Duration(len(r.used)) * r.every
	for range 1 + random.IntN(60) {
		last += time.Duration(1 + random.Int64N(int64(20*time.Millisecond)))
		h := hasty{at: last, deadline: last + time.Duration(random.Int64N(int64(30*time.Second))), cost: 1}
		if random.IntN(8) == 0 {
			h.cost = 1 + random.Int64N(least)
		}
		r.comers = append(r.comers, h)
	}
	return r
}

// served returns when the last of some comers is served if all of them stay, by a store that is asked whenever something is due.
func (r *rush) served(t *testing.T, among []hasty) time.Duration {
	clock := storetest.NewClock(0)
	origin := rule.Micros(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()) // when bubbles begin
	limiter := slidegate.MustNew(storetest.NewReference(clock), r.limits...)
	take := func(now time.Duration, cost int64) slidegate.Decision {
		clock.Set(origin + rule.Micros(now.Microseconds()))
		d, err := limiter.AllowN(t.Context(), "k", cost)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i, cost := range r.used {
		take(time.Duration(i)*r.every, cost)
	}
	var now time.Duration
	for _, h := range among {
		for now = max(now, h.at); ; {
			d := take(now, h.cost)
			if d.Allowed {
				break
			}
			now += d.RetryAfter
		}
	}
	return now
}

// told is what a comer was told, and when.
type told struct {
	at  time.Duration
	err error
}

func (r *rush) run(t *testing.T) []told {
	results := make([]told, len(r.comers))
	synctest.Test(t, func(t *testing.T) {
		memory, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		limiter := slidegate.MustNew(memory, r.limits...)
		for i, cost := range r.used {
			testkit.Delay(time.Duration(i)*r.every - time.Since(start))
			if _, err := limiter.AllowN(t.Context(), "k", cost); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for i, h := range r.comers {
			all.Go(func() {
				testkit.Delay(h.at - time.Since(start))
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(h.deadline))
				defer cancel()
				err := limiter.Wait(ctx, "k", h.cost)
				results[i] = told{time.Since(start), err}
			})
		}
		all.Wait()
	})
	return results
}

// isExact reports whether the line knows when each comer is served.
func (r *rush) isExact() bool {
	if len(r.limits) > 1 {
		return false
	}
	switch r.limits[0].Algorithm {
	case slidegate.TokenBucket:
		return true
	case slidegate.FixedWindow:
		return !slices.ContainsFunc(r.comers, func(h hasty) bool { return h.cost > 1 })
	}
	return false
}

// Under one limit or two, nobody is told at once that it comes too late who would be served in time if everybody before it stayed. Where the
// line knows when each is served, all who come too late are told so at once, with that time.
func TestOnlyTheLateAreToldSo(t *testing.T) {
	plays := 3000
	if testing.Short() {
		plays = 300
	}
	late, served := 0, 0
	for seed := range uint64(plays) {
		r := randomRush(rand.New(rand.NewPCG(seed, 37)))
		var stay []hasty
		for i, got := range r.run(t) {
			h := r.comers[i]
			switch {
			case got.err == nil:
				served++
			case !errors.As(got.err, new(*slidegate.DeadlineError)) && !errors.Is(got.err, context.DeadlineExceeded):
				t.Fatalf("seed %d: comer %d: %v", seed, i, got.err)
			case got.at == h.at:
				late++
				at := r.served(t, append(slices.Clone(stay), h))
				wrong := at < h.deadline-2*time.Microsecond
				if told := new(slidegate.DeadlineError); r.isExact() && errors.As(got.err, &told) {
					wrong = wrong || (told.RetryAfter-(at-h.at)).Abs() > 5*time.Microsecond
				}
				if wrong {
					t.Fatalf("seed %d, %v, %d used every %v: comer %d (%+v) was told %v, and is served after %v; before it are %v", seed, r.limits,
						len(r.used), r.every, i, h, got.err, at-h.at, stay)
				}
				continue
			case r.isExact():
				t.Fatalf("seed %d, %v: comer %d (%+v) was told %v only after %v", seed, r.limits, i, h, got.err, got.at-h.at)
			}
			stay = append(stay, h)
		}
	}
	t.Logf("%d were told that they come too late, and %d served", late, served)
	if late < plays || served < plays {
		t.Errorf("%d were told that they come too late, and %d served, want more of both", late, served)
	}
}
