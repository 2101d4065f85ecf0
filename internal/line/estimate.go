package line

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// known is what the last answer about a charge said.
type known struct {
	free  int64     // units that were left
	cost  int64     // a cost that is admitted at that time, and not earlier
	at    time.Time // zero if the cost is 0
	reset time.Time // when the whole capacity is free
	early bool      // others may return some before
}

// learn remembers an answer.
func (q *queue) learn(answers []rule.Answer, now time.Time) {
	q.known = slices.Grow(q.known[:0], len(answers))[:len(answers)]
	for i := range answers {
		q.known[i] = knownFrom(&q.asked.charges[i], &answers[i], now)
	}
}

func knownFrom(asked *store.Charge, a *rule.Answer, now time.Time) known {
	k := known{free: a.Remaining, reset: now.Add(a.ResetAfter.Duration()), early: isEarly(asked.Limit, a)}
	switch {
	case !a.Allowed:
		k.cost, k.at = asked.Cost, now.Add(a.RetryAfter.Duration())
	case a.Remaining == 0 && a.NextAfter > 0:
		k.cost, k.at = 1, now.Add(a.NextAfter.Duration())
	}
	return k
}

// inWholeParts reports whether units leave the window part by part, and not before.
func inWholeParts(r *rule.Limit) bool {
	return r.Algorithm == rule.SlidingWindow && r.Overlap == rule.OverlapWhole || r.Algorithm == rule.DefaultAlgorithm && r.StartsInParts(1)
}

// isWeighted reports whether the oldest part counts by the share of it that the window covers.
func isWeighted(r *rule.Limit) bool {
	return r.Algorithm == rule.SlidingWindow && r.Overlap != rule.OverlapWhole
}

// laps returns for how long units come back, at least and at most, that are taken as soon as they are free, so many times. They were free
// for the first time after a while that is given.
func laps(r *rule.Limit, n int64, first time.Duration) (least, most time.Duration) {
	part := (r.Window / rule.Micros(max(1, r.Segments))).Duration()
	switch {
	case n == 0:
		return 0, 0
	case inWholeParts(r):
		most = times(float64(n), r.Window.Duration()+part)
		if first > 0 { // at the beginning of a part
			return most, most
		}
		return most - part, most
	case isWeighted(r):
		most = times(float64(n), r.Window.Duration())
		return most - part, most
	case r.Calendar != 0: // the window is the longest period
		most = times(float64(n), r.Window.Duration())
		return most / 10 * 9, most
	default:
		most = times(float64(n), r.Window.Duration())
		return most, most
	}
}

func times(n float64, d time.Duration) time.Duration {
	return time.Duration(min(n*float64(d), math.MaxInt64/4))
}

// bounds returns between which times the last of n units will have been admitted under r, if nobody else takes any.
func (k *known) bounds(r *rule.Limit, n int64, now time.Time) (least, most time.Duration) {
	reset := max(0, k.reset.Sub(now))
	switch {
	case k.early || r.Algorithm == rule.InFlight:
		return 0, math.MaxInt64 // when is unknown
	case n <= k.free:
		return 0, 0
	case r.Algorithm == rule.TokenBucket:
		each := float64(r.Window.Duration()) / float64(r.Quota)
		at := max(0, k.reset.Sub(now)+time.Duration(float64(n-r.Burst)*each))
		return at, at
	}
	if r.Algorithm == rule.FixedWindow {
		free := k.free
		if reset == 0 {
			free = r.Quota
		}
		if n <= free {
			return 0, reset
		}
		from, to := laps(r, (n-free-1)/r.Quota, reset)
		return reset + from, reset + to
	}
	rest := (n-1)%r.Quota + 1
	if rest <= k.free {
		reset = 0
	} else if k.cost > 0 && rest >= k.cost {
		least = max(0, k.at.Sub(now))
	}
	from, to := laps(r, (n-1)/r.Quota, least)
	return least + from, reset + to
}

// judge returns an error if a request that has just entered will certainly be served too late, and marks it if only the store knows.
func (q *queue) judge(w *waiter) error {
	if w.deadline.IsZero() || q.known == nil {
		return nil
	}
	return q.judgeAt(w, q.units, q.length, true)
}

// judgeAt is judge for a request at a place, with the units that are served before it, and its own.
func (q *queue) judgeAt(w *waiter, units []int64, place int, entering bool) error {
	now := time.Now()
	var least, most time.Duration
	for i := range units {
		from, to := q.known[i].bounds(w.rule(i), units[i], now)
		least, most = max(least, from), max(most, to)
	}
	if entering {
		if paced, ok := q.pace.expect(now, q.window.Duration(), units[0]); ok && q.isContended(now) {
			least = max(least, paced)
			most = least
		}
	}
	if w.isLate(now, least) {
		return &Late{After: least, Place: place}
	}
	if entering && w.isLate(now, most) && most < math.MaxInt64/2 {
		w.unsure = true
		w.notify()
	}
	return nil
}

// judgeAll tells those who will certainly be served too late. After the first answer, which those who entered before it await, it also marks
// those of whom only the store knows.
func (q *queue) judgeAll(first bool) {
	if q.known == nil {
		return
	}
	units, place := make([]int64, len(q.known)), 0
	for w := q.head; w != nil; {
		behind := w.behind
		for i := range units {
			units[i] += w.costs[i]
		}
		if place++; !w.deadline.IsZero() {
			if err := q.judgeAt(w, units, place, first); err != nil {
				for i := range units {
					units[i] -= w.costs[i]
				}
				place--
				q.finish(w, err)
			}
		}
		w = behind
	}
}

// estimate asks the store when a request will be served, and returns an error if that is too late. The shard is unlocked meanwhile.
func (q *queue) estimate(ctx context.Context, w *waiter) error {
	w.unsure = false
	units, place := make([]int64, len(w.costs)), 0
	for other := w; other != nil; other = other.before {
		place++
		for i := range units {
			units[i] += other.costs[i]
		}
	}
	peek := store.Request{Op: rule.Peek, Group: w.request.Group, Charges: slices.Clone(w.request.Charges), Answers: make([]rule.Answer, len(units))}
	for i := range units {
		peek.Charges[i].Cost = inLap(w.rule(i), units[i])
	}
	on := w.request.Store
	q.shard.mu.Unlock()
	err := guard(func() error { return on.Apply(ctx, []store.Request{peek}) })
	q.shard.mu.Lock()
	if err != nil {
		return nil // the question of the line will find out
	}
	now := time.Now()
	var after time.Duration
	for i := range units {
		k := knownFrom(&peek.Charges[i], &peek.Answers[i], now)
		if isWeighted(w.rule(i)) && units[i] > w.costs[i] { // what comes before it makes room earlier: one sum is rounded, not each part of it
			k.cost = 0
		}
		least, _ := k.bounds(w.rule(i), units[i], now)
		after = max(after, least)
	}
	if w.isLate(now, after) {
		return &Late{After: after, Place: place}
	}
	return nil
}

// inLap returns for how many of n units the store is asked, so that bounds knows when the last of them will be free.
func inLap(r *rule.Limit, n int64) int64 {
	switch n = max(1, n); r.Algorithm {
	case rule.InFlight:
		return 1
	case rule.TokenBucket:
		return min(n, r.Burst)
	default:
		return (n-1)%r.Quota + 1
	}
}

// pace is how many units a line was served, in this window and in the last one.
type pace struct {
	began     time.Time
	now, last int64
	whole     bool // the last window is a whole one
}

func (p *pace) add(now time.Time, window time.Duration, units int64) {
	p.turn(now, window)
	p.now += units
}

func (p *pace) turn(now time.Time, window time.Duration) {
	switch gone := now.Sub(p.began); {
	case p.began.IsZero():
		p.began = now
	case gone >= 2*window:
		*p = pace{began: now}
	case gone >= window:
		*p = pace{began: p.began.Add(window), last: p.now, whole: true}
	}
}

// expect returns when so many units will be served at the pace of the last window.
func (p *pace) expect(now time.Time, window time.Duration, units int64) (time.Duration, bool) {
	p.turn(now, window)
	if !p.whole || p.last == 0 {
		return 0, false
	}
	return time.Duration(min(float64(units)*float64(window)/float64(p.last), math.MaxInt64/4)), true
}
