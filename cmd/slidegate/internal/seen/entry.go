package seen

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/internal/engine"
)

const (
	// NearShare is the share of a limit from which a key is near to it.
	NearShare = 0.8

	maxRoutes = 4
	maxRoute  = 100 // bytes
)

// Pair counts admissions and refusals.
type Pair [2]int64

// route is one of the routes that a key uses most.
type route struct {
	method, path string
	count        int32
}

// count counts a decision.
func (k *entry) count(e *Event, now int64, clock func() time.Time) {
	c := k.cell(now)
	k.weight++
	switch {
	case e.Refused:
		k.lastCause = k.causeOf(e)
		if c.refused > 0 && c.cause() != k.lastCause {
			c = k.cellOf(k.lastCause)
		}
		c.setCause(k.lastCause)
		c.refused++
		k.refused++
		k.weight += refusalWeight - 1
		k.lastRefused = clock()
	default:
		c.admitted++
		if e.Limit != nil && !e.Fallback {
			k.near, k.share = e.Limit, engine.Share(e.Limit, e.Remaining)
		}
	}
	if e.Limit != nil {
		k.plan = e.Plan // by which a peek finds the limits that decide
	}
	if e.Route != "" {
		k.addRoute(e.Method, e.Route[:min(len(e.Route), maxRoute)])
	}
}

// cell returns the counts of the current minute.
func (k *entry) cell(now int64) *cell {
	if n := len(k.minutes); n > 0 && k.minutes[n-1].minute() >= now { // the clock may have stepped back
		return &k.minutes[n-1]
	}
	gone := 0
	for gone < len(k.minutes) && k.minutes[gone].minute() < now-hour {
		gone++
	}
	k.lastAt = now
	k.minutes = append(k.minutes[:copy(k.minutes, k.minutes[gone:])], newCell(now))
	return &k.minutes[len(k.minutes)-1]
}

// within returns the counts from a minute on.
func (k *entry) within(from int64) (n Pair) {
	for i := len(k.minutes) - 1; i >= 0 && k.minutes[i].minute() >= from; i-- {
		n[0] += int64(k.minutes[i].admitted)
		n[1] += int64(k.minutes[i].refused)
	}
	return n
}

// shadowWithin returns how many refusals of within were in shadow mode.
func (k *entry) shadowWithin(from int64) (n int64) {
	for i := len(k.minutes) - 1; i >= 0 && k.minutes[i].minute() >= from; i-- {
		if c := &k.minutes[i]; c.refused > 0 && k.causes[c.cause()].shadow {
			n += int64(c.refused)
		}
	}
	return n
}

// addRoute counts a route, in a sketch: a route that more than a fifth of the requests use is certainly in it.
func (k *entry) addRoute(method, path string) {
	free := -1
	for i := range k.routes {
		r := &k.routes[i]
		if r.count > 0 && r.path == path && r.method == method {
			r.count++
			return
		}
		if r.count == 0 {
			free = i
		}
	}
	if free >= 0 {
		k.routes[free] = route{strings.Clone(method), strings.Clone(path), 1}
		return
	}
	for i := range k.routes {
		k.routes[i].count--
	}
}

// topRoutes returns the routes as text, the most used first.
func (k *entry) topRoutes() (texts []string) {
	all := k.routes
	slices.SortFunc(all[:], func(a, b route) int { return cmp.Compare(b.count, a.count) })
	for _, r := range all {
		if r.count > 0 {
			texts = append(texts, strings.TrimSpace(r.method+" "+r.path))
		}
	}
	return texts
}
