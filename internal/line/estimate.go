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
		a := &answers[i]
		k := known{free: a.Remaining, reset: now.Add(a.ResetAfter.Duration()), early: isEarly(q.asked.charges[i].Limit, a)}
		switch {
		case !a.Allowed:
			k.cost, k.at = q.asked.charges[i].Cost, now.Add(a.RetryAfter.Duration())
		case a.Remaining == 0 && a.NextAfter > 0:
			k.cost, k.at = 1, now.Add(a.NextAfter.Duration())
		}
		q.known[i] = k
	}
}

// lap returns in how many windows the units of a limit come back that are taken as soon as they are free.
func lap(r *rule.Limit) time.Duration {
	switch {
	case r.Algorithm == rule.SlidingWindow && r.Overlap == rule.OverlapWhole,
		r.Algorithm == rule.DefaultAlgorithm && r.StartsInParts(1):
		return (r.Window + r.Window/rule.Micros(max(1, r.Segments))).Duration()
	default:
		return r.Window.Duration()
	}
}

// bounds returns between which times n units, one after the other, will have been admitted if nobody else takes any.
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
	laps, rest := (n-1)/r.Quota, (n-1)%r.Quota+1
	if rest <= k.free {
		reset = 0
	} else if k.cost > 0 && rest >= k.cost {
		least = max(0, k.at.Sub(now))
	}
	later := time.Duration(min(float64(laps)*float64(lap(r)), math.MaxInt64/4))
	return least + later, reset + later
}

// ahead returns how many requests are before one that has just entered, and adds up the units of all of them, and its own.
func (q *queue) ahead(w *waiter, units []int64) (places int) {
	higher := true
	for _, c := range q.classes {
		n, share := c.length, 1.0
		if c == w.class {
			higher, n = false, n-1
		} else if !higher { // every fourth turn
			n = min(n, places/turnsOfHighest)
			share = float64(n) / float64(c.length)
		}
		places += n
		for i := range units {
			units[i] += int64(float64(c.units[i]) * share)
		}
	}
	return places
}

// judge returns an error if a request that has just entered will certainly be served too late, and marks it if only the store knows.
func (q *queue) judge(w *waiter) error {
	if w.deadline.IsZero() || q.known == nil {
		return nil
	}
	units := make([]int64, len(w.costs))
	places := q.ahead(w, units)
	return q.judgeAt(w, units, places+1, true)
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
	units := make([]int64, len(q.known))
	place := 0
	for _, c := range slices.Clone(q.classes) {
		for w := c.head; w != nil; {
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
}

// estimate asks the store when a request will be served, and returns an error if that is too late. The shard is unlocked meanwhile.
func (q *queue) estimate(ctx context.Context, w *waiter) error {
	w.unsure = false
	units, place := make([]int64, len(w.costs)), 0
	for _, c := range q.classes {
		if c == w.class {
			break
		}
		place += c.length
		for i := range units {
			units[i] += c.units[i]
		}
	}
	for other := w; other != nil; other = other.before {
		place++
		for i := range units {
			units[i] += other.costs[i]
		}
	}
	peek := store.Request{Op: rule.Peek, Group: w.request.Group, Charges: slices.Clone(w.request.Charges), Answers: make([]rule.Answer, len(units))}
	for i := range units {
		capacity := w.rule(i).Capacity()
		if w.rule(i).Algorithm == rule.InFlight {
			capacity = 1
		}
		peek.Charges[i].Cost = (max(1, units[i])-1)%capacity + 1
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
		r, a := w.rule(i), &peek.Answers[i]
		switch {
		case r.Algorithm == rule.InFlight || a.Flags&rule.Held != 0:
		case !a.Allowed || units[i] > r.Capacity():
			laps := (units[i] - 1) / r.Capacity()
			after = max(after, a.RetryAfter.Duration()+time.Duration(min(float64(laps)*float64(lap(r)), math.MaxInt64/4)))
		}
	}
	if w.isLate(now, after) {
		return &Late{After: after, Place: place}
	}
	return nil
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
