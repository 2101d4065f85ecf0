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
	of    *rule.Limit
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
	k := known{of: asked.Limit.Rule(), free: a.Remaining, reset: now.Add(a.ResetAfter.Duration()), early: isEarly(asked.Limit, a)}
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

// bounds returns between which times a request will have been admitted under r, as the last of n units of which most come under the limit of
// the highest class, if nobody else takes any.
func (k *known) bounds(r, highest *rule.Limit, n int64, now time.Time) (least, most time.Duration) {
	reset := max(0, k.reset.Sub(now))
	more := k.of.Capacity() - r.Capacity() // what has to be free in addition by the limit that was asked about
	switch {
	case k.early || r.Algorithm == rule.InFlight:
		return 0, math.MaxInt64 // when is unknown
	case n+more <= k.free:
		return 0, 0
	case r.Algorithm == rule.TokenBucket:
		each := float64(r.Window.Duration()) / float64(r.Quota)
		at := max(0, k.reset.Sub(now)+time.Duration(float64(n-r.Burst)*each))
		if r.Quota == highest.Quota && r.Quota == k.of.Quota {
			return at, at
		}
		if k.cost > 0 && n >= k.cost { // the others are refilled at another rate, of which this is the highest
			least = max(0, k.at.Sub(now)) + times(float64(n-k.cost)/float64(highest.Quota), r.Window.Duration())
		}
		return least, max(least, at)
	}
	if r.Algorithm == rule.FixedWindow {
		free := k.free + highest.Quota - k.of.Quota
		if reset == 0 {
			free = highest.Quota
		}
		if n <= free {
			return 0, reset
		}
		from, to := laps(r, (n-free-1)/highest.Quota, reset)
		return reset + from, reset + to
	}
	rest := (n-1)%highest.Quota + 1 + more
	if rest <= k.free {
		reset = 0
	} else if k.cost > 0 && rest >= k.cost {
		least = max(0, k.at.Sub(now))
	}
	from, to := laps(r, (n-1)/highest.Quota, least)
	return least + from, reset + to
}

// ahead returns how many requests will be served before one, at least, if before of its class are, and adds their units to those of its class.
// A lower class has every fourth turn, so not all of the highest are ahead of it; whether its part of the limits has room in its turn is not
// known before.
func (q *queue) ahead(w *waiter, before int, units []int64) (places int) {
	highest := q.classes[0]
	if w.class == highest {
		return before
	}
	n := min(highest.length, before*turnsOfHighest+max(0, turnsOfHighest-q.turns.highest))
	for i := range units {
		if n == highest.length {
			units[i] += highest.units[i]
		} else {
			units[i] += int64(n) * highest.least[i]
		}
	}
	return before + n
}

// judge returns an error if a request that has just entered will certainly be served too late, and marks it if only the store knows.
func (q *queue) judge(w *waiter) error {
	if w.deadline.IsZero() || q.known == nil {
		return nil
	}
	units := slices.Clone(w.class.units)
	return q.judgeAt(w, units, q.ahead(w, w.class.length-1, units)+1, true)
}

// judgeAt is judge for a request at a place, with the units that are served before it, and its own.
func (q *queue) judgeAt(w *waiter, units []int64, place int, entering bool) error {
	now := time.Now()
	var least, most time.Duration
	for i := range units {
		from, to := q.known[i].bounds(w.rule(i), q.classes[0].head.rule(i), units[i], now)
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
	own, units := make([]int64, len(q.known)), make([]int64, len(q.known))
	for _, c := range slices.Clone(q.classes) {
		clear(own)
		before := 0
		for w := c.head; w != nil; {
			behind := w.behind
			for i := range own {
				own[i] += w.costs[i]
			}
			if before++; !w.deadline.IsZero() {
				copy(units, own)
				if err := q.judgeAt(w, units, q.ahead(w, before-1, units)+1, first); err != nil {
					for i := range own {
						own[i] -= w.costs[i]
					}
					before--
					q.finish(w, err)
				}
			}
			w = behind
		}
	}
}

// estimate asks the store when a request will be served, and returns an error if that is too late. The shard is unlocked meanwhile.
func (q *queue) estimate(ctx context.Context, w *waiter) error {
	w.unsure = false
	units, before := make([]int64, len(w.costs)), -1
	for other := w; other != nil; other = other.before {
		before++
		for i := range units {
			units[i] += other.costs[i]
		}
	}
	place := q.ahead(w, before, units) + 1
	peek := store.Request{Op: rule.Peek, Group: w.request.Group, Charges: slices.Clone(w.request.Charges), Answers: make([]rule.Answer, len(units))}
	for i := range units {
		peek.Charges[i].Cost = inLap(w.rule(i), q.classes[0].head.rule(i), units[i])
	}
	on := w.request.Store
	q.shard.mu.Unlock()
	err := guard(func() error { return on.Apply(ctx, []store.Request{peek}) })
	q.shard.mu.Lock()
	if err != nil || len(q.classes) == 0 {
		return nil // the question of the line will find out
	}
	now := time.Now()
	var after time.Duration
	for i := range units {
		k := knownFrom(&peek.Charges[i], &peek.Answers[i], now)
		if isWeighted(k.of) && units[i] > w.costs[i] { // what comes before it makes room earlier: one sum is rounded, not each part of it
			k.cost = 0
		}
		least, _ := k.bounds(w.rule(i), q.classes[0].head.rule(i), units[i], now)
		after = max(after, least)
	}
	if w.isLate(now, after) {
		return &Late{After: after, Place: place}
	}
	return nil
}

// inLap returns for how many of n units the store is asked, so that bounds knows when the last of them will be free.
func inLap(r, highest *rule.Limit, n int64) int64 {
	switch n = max(1, n); r.Algorithm {
	case rule.InFlight:
		return 1
	case rule.TokenBucket:
		return min(n, r.Burst)
	default:
		return min((n-1)%highest.Quota+1, r.Quota)
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
