package envoy

import (
	"github.com/slidegate/slidegate/store"
)

// prepare reserves capacity in the store for the limits of all domains, so that limits from descriptors cannot use it
// up, and starts their metrics at 0.
func prepare(st store.Store, domains map[string]*domain) (release func()) {
	var limits []*store.Limit
	for _, d := range domains {
		limits = d.root.appendLimits(limits)
	}
	if metrics, ok := store.As[announcer](st); ok {
		metrics.Announce(limits)
	}
	room, ok := store.As[store.Preparer](st)
	if !ok {
		return func() {}
	}
	return room.Prepare(limits)
}

// announcer is a store whose metrics have series for limits that have not been used yet; see layer/observe.
type announcer interface{ Announce(limits []*store.Limit) }

// appendLimits appends the limits of a list of descriptors and of all lists below it.
func (l *level) appendLimits(to []*store.Limit) []*store.Limit {
	for n := range l.all() {
		if n.bound != nil && n.bound.limit != nil {
			to = append(to, n.bound.limit)
		}
		to = n.next.appendLimits(to)
	}
	return to
}
