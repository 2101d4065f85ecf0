package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/slidegate/slidegate/internal/workload"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// roundTrip is what is sent to Redis for one batch. Its memory is reused.
type roundTrip struct {
	calls  []Call
	drafts []draft      // of the calls
	open   map[lane]int // the call that a request is added to
	names  []string     // of the request being planned
	text   []byte
	done   chan any // has capacity for the signal that the client is done: the value it panicked with, or nil
	split  bool     // two calls may have a key in common
	work   int      // of all calls, as internal/workload estimates it

	fits [paths]bool         // the paths that can be used for this batch
	long map[string]struct{} // keys whose requests all take the general path

	serverTime rule.Micros // from a reply that the time lies outside the periods that were sent, otherwise 0
}

// lane identifies the call of a request: by the path, and in a cluster by the hash slot.
type lane struct {
	path path
	slot uint16
}

// draft holds the data of one call that is being written.
type draft struct {
	path path
	of   []int // the indexes of its requests in the batch, in the order in which they are sent
	work int

	// The fields below are for fast paths.
	limits       []uint64
	packedLimits []byte // the limits, packed
	charges      []fastCharge
	firstCharges []int          // by key, the index of its first charge
	last         map[string]int // by name of a key, the index of its last charge
	cost         int64          // of the first charge
	even         bool           // every key has one charge, all of the same limit and cost
	more         []bool         // if not even: for each of of, whether the next one has the same key
}

var roundTrips = sync.Pool{New: func() any {
	return &roundTrip{open: map[lane]int{}, long: map[string]struct{}{}, done: make(chan any, 1)}
}}

// plan encodes a batch for the script. A request that cannot be sent gets its error immediately.
func (t *roundTrip) plan(s *Store, batch []store.Request) {
	t.choosePaths(s, batch)
	for i := range batch {
		r := &batch[i]
		if r.Err = t.name(s, r); r.Err != nil {
			continue
		}
		call, d := t.callFor(s, t.pathFor(r), batch, r)
		d.of = append(d.of, i)
		if d.path != generalPath {
			d.add(call, t.names[0], i, r)
			continue
		}
		call.Keys = append(call.Keys, t.names...)
		for j := range r.Charges {
			t.text = s.appendCharge(t.text[:0], r, j)
			call.Args = append(call.Args, string(t.text))
		}
		if len(t.names) > len(r.Charges) {
			call.Args = append(call.Args, string(appendMemory(t.text[:0], r)), "")
		}
	}
	t.writeHeads(s, batch)
}

// writeHeads writes the beginning of every call: the time, and for a fast path the limits and the charges.
func (t *roundTrip) writeHeads(s *Store, batch []store.Request) {
	now := s.now()
	for i := range t.calls {
		call, d := &t.calls[i], &t.drafts[i]
		t.text = append(appendNumber(appendNumber(t.text[:0], int64(now)), s.grace), byte(d.path))
		call.Args[0] = string(append(t.text, d.packedLimits...))
		if d.path != generalPath && !d.even {
			list, given := d.appendList(t.text[:0], batch)
			if call.Args = append(call.Args, string(list)); len(given) > 0 {
				call.Args = append(call.Args, string(given))
			}
		}
	}
}

// appendNumber packs an integer as a Lua number.
func appendNumber(to []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(to, math.Float64bits(float64(n)))
}

// name computes the names of the keys of a request.
func (t *roundTrip) name(s *Store, r *store.Request) error {
	if len(r.Charges) == 0 || len(r.Charges) > maxCharges {
		return fmt.Errorf("redisstore: %w: a request has 1 to %d charges, not %d", store.ErrUnsupported, maxCharges, len(r.Charges))
	}
	t.names = t.names[:0]
	for j := range r.Charges {
		charge := &r.Charges[j]
		t.text = appendName(t.text[:0], s.prefix(charge.Limit), r.Group, charge.Key)
		t.names = append(t.names, string(t.text))
		if s.cluster && slot(t.names[j]) != slot(t.names[0]) {
			return fmt.Errorf("redisstore: %w: the keys of the request are on several nodes of the cluster; give them a group", store.ErrUnsupported)
		}
	}
	if memory := memoryOf(r); memory > 0 {
		for generation := range 2 {
			t.text = appendSettledName(t.text[:0], t.names[0], generation)
			t.names = append(t.names, string(t.text))
		}
	}
	return nil
}

// callFor returns the call for the request that was just named.
func (t *roundTrip) callFor(s *Store, p path, batch []store.Request, r *store.Request) (*Call, *draft) {
	l := lane{path: p}
	if s.cluster {
		l.slot = slot(t.names[0])
	}
	last, known := t.open[l]
	if known {
		d := &t.drafts[last]
		if work := workload.Of(r, &batch[d.of[len(d.of)-1]]); d.work+work <= maxCall {
			d.work += work
			t.work += work
			return &t.calls[last], d
		}
	}
	t.split = t.split || known
	last = len(t.calls)
	if last < min(cap(t.calls), cap(t.drafts)) { // reuse the memory of an earlier round trip
		t.calls, t.drafts = t.calls[:last+1], t.drafts[:last+1]
	} else {
		t.calls, t.drafts = append(t.calls, Call{}), append(t.drafts, draft{})
	}
	t.open[l] = last
	call, d := &t.calls[last], &t.drafts[last]
	call.Args = append(call.Args, "") // for the head
	d.path, d.work = p, workload.Of(r, nil)
	t.work += d.work
	return call, d
}

// readReplies derives the answers to a batch from the replies.
func (t *roundTrip) readReplies(batch []store.Request) {
	for i := range t.calls {
		call := &t.calls[i]
		err := call.Err
		if err != nil {
			err = callError(call)
		} else {
			err = t.read(call.Reply, batch, &t.drafts[i])
		}
		if err == nil {
			continue
		}
		for _, at := range t.drafts[i].of {
			batch[at].Err = err
		}
	}
}

// recycle puts the round trip back into the pool, without the caller's keys.
func (t *roundTrip) recycle() {
	for i := range t.calls {
		call := &t.calls[i]
		clear(call.Keys)
		clear(call.Args)
		*call = Call{Keys: call.Keys[:0], Args: call.Args[:0]}
		d := &t.drafts[i]
		clear(d.last)
		*d = draft{
			of: d.of[:0], limits: d.limits[:0], packedLimits: d.packedLimits[:0], charges: d.charges[:0], firstCharges: d.firstCharges[:0], last: d.last, more: d.more[:0],
		}
	}
	clear(t.names)
	clear(t.open)
	clear(t.long)
	t.calls, t.drafts, t.names, t.split, t.work, t.serverTime = t.calls[:0], t.drafts[:0], t.names[:0], false, 0, 0
	roundTrips.Put(t)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
