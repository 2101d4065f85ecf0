package replay

import (
	"cmp"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// maxPending is the maximum number of requests waiting to be sorted, 56 bytes each and their notes.
const maxPending = 1 << 20

// order sorts traffic that is slightly out of order. Servers log a request when it ends, with the time at which it
// began, so a slow request follows quick ones that began later. A request waits until one that is later by the distance
// has been read. Requests that come too late to be sorted are passed on as they come, and counted.
type order struct {
	distance rule.Micros // 0: leave the traffic as it is

	pending   []request
	unsorted  bool
	threshold int // how many pending requests make it worthwhile to call release

	latest   rule.Micros // the latest time of all requests read
	released rule.Micros // the latest time of all requests passed on
	found    Order
}

func newOrder(distance rule.Micros) *order {
	return &order{distance: distance, threshold: batchSize}
}

func (o *order) add(r request) {
	further := len(o.pending) > 0 && o.pending[len(o.pending)-1].more // r is a further part of the last request
	if r.at < o.latest && !further {
		o.found.OutOfOrder++
		o.found.Furthest = max(o.found.Furthest, o.latest-r.at)
		o.unsorted = true
		if r.at < o.released || o.distance == 0 {
			o.found.TooLate++
		}
	}
	o.latest = max(o.latest, r.at)
	o.pending = append(o.pending, r)
}

// full reports whether it is time to call release.
func (o *order) full() bool { return len(o.pending) >= o.threshold }

// release calls pass with the requests that have waited long enough, or with all of them, in pieces of about batchSize
// that keep the parts of a request together.
func (o *order) release(all bool, pass func([]request)) {
	if o.unsorted && o.distance > 0 {
		slices.SortFunc(o.pending, func(a, b request) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq), cmp.Compare(a.group, b.group))
		})
		o.unsorted = false
	}
	ready := o.pending[:o.ready(all)]
	for _, r := range ready {
		o.released = max(o.released, r.at)
	}
	for rest := ready; len(rest) > 0; {
		piece := rest[:wholeRequests(rest, batchSize)]
		rest = rest[len(piece):]
		pass(piece)
	}
	left := copy(o.pending, o.pending[len(ready):])
	o.pending = o.pending[:left]
	o.threshold = min(maxPending, max(batchSize, 2*left))
}

// ready returns how many of the pending requests, which are sorted, have waited long enough.
func (o *order) ready(all bool) int {
	if all || o.distance == 0 {
		return len(o.pending)
	}
	n, _ := slices.BinarySearchFunc(o.pending, o.latest-o.distance, func(r request, t rule.Micros) int {
		return cmp.Or(cmp.Compare(r.at, t), -1) // find the first later one
	})
	if len(o.pending) >= maxPending {
		n = max(n, len(o.pending)-maxPending/2)
	}
	return wholeRequests(o.pending, n)
}
