package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// trip is what is sent to Redis for one batch. Its memory is used again.
type trip struct {
	calls  []Call
	drafts []draft      // of the calls
	open   map[lane]int // the call that a request is added to
	names  []string     // of the request being planned
	text   []byte
	done   chan any // has room for the word that the client is done with it: what it panicked with, or nil
	split  bool     // two calls may have a key in common

	fits [ways]bool          // the ways that can be gone for this batch
	long map[string]struct{} // keys of it whose requests all go the long way

	serverTime rule.Micros // of a reply that it lies outside of the boundaries that were sent; else 0
}

// lane is what the requests of one call have in common: the way, and in a cluster the hash slot.
type lane struct {
	way  way
	slot uint16
}

// draft is what belongs to one call.
type draft struct {
	way way
	of  []int // the places in the batch of the requests that it decides, in the order in which they are sent

	// What follows is for short ways.
	limits  []uint64
	limited []byte // the limits, packed
	charges []shortCharge
	firsts  []int          // by the places of keys, those of their first charges
	last    map[string]int // by the names of keys, the places of their last charges
	cost    int64          // of the first charge
	even    bool           // every key has one charge, all of the same limit and cost
	more    []bool         // if it is not even: for each of of, whether the next one has the same key
}

var trips = sync.Pool{New: func() any { return &trip{open: map[lane]int{}, long: map[string]struct{}{}, done: make(chan any, 1)} }}

// plan writes a batch as the script reads it. A request that cannot be sent gets its error at once.
func (t *trip) plan(s *Store, batch []store.Request) {
	t.chooseWays(s, batch)
	for i := range batch {
		r := &batch[i]
		if r.Err = t.name(s, r); r.Err != nil {
			continue
		}
		call, d := t.callFor(s, t.wayFor(r))
		d.of = append(d.of, i)
		if d.way != longWay {
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
	t.head(s, batch)
}

// head writes what every call begins with: the time, and for a short way the limits and the charges.
func (t *trip) head(s *Store, batch []store.Request) {
	now := s.now()
	for i := range t.calls {
		call, d := &t.calls[i], &t.drafts[i]
		t.text = append(appendNumber(appendNumber(t.text[:0], int64(now)), s.grace), byte(d.way))
		call.Args[0] = string(append(t.text, d.limited...))
		if d.way != longWay && !d.even {
			list, given := d.appendList(t.text[:0], batch)
			if call.Args = append(call.Args, string(list)); len(given) > 0 {
				call.Args = append(call.Args, string(given))
			}
		}
	}
}

// appendNumber packs a whole number as Lua counts.
func appendNumber(to []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(to, math.Float64bits(float64(n)))
}

// name names the keys of a request.
func (t *trip) name(s *Store, r *store.Request) error {
	if len(r.Charges) == 0 || len(r.Charges) > maxCharges {
		return fmt.Errorf("redisstore: %w: a request has 1 to %d charges, not %d", store.ErrUnsupported, maxCharges, len(r.Charges))
	}
	t.names = t.names[:0]
	for j := range r.Charges {
		charge := &r.Charges[j]
		t.text = appendName(t.text[:0], s.prefix(charge.Limit), r.Group, charge.Key)
		t.names = append(t.names, string(t.text))
		if s.cluster && slot(t.names[j]) != slot(t.names[0]) {
			return fmt.Errorf("redisstore: %w: the keys of the request lie on several nodes of the cluster: give them a group", store.ErrUnsupported)
		}
	}
	if memory := memoryOf(r); memory > 0 {
		for generation := range 2 {
			t.text = appendSettledName(t.text[:0], t.names[0], memory, generation)
			t.names = append(t.names, string(t.text))
		}
	}
	return nil
}

// callFor returns the call that the request just named belongs to.
func (t *trip) callFor(s *Store, w way) (*Call, *draft) {
	l := lane{way: w}
	if s.cluster {
		l.slot = slot(t.names[0])
	}
	last, known := t.open[l]
	if known && len(t.drafts[last].charges)+len(t.names) <= maxKeys && len(t.calls[last].Keys)+len(t.names) <= maxKeys {
		return &t.calls[last], &t.drafts[last]
	}
	t.split = t.split || known
	last = len(t.calls)
	if last < min(cap(t.calls), cap(t.drafts)) { // with the memory of an earlier trip
		t.calls, t.drafts = t.calls[:last+1], t.drafts[:last+1]
	} else {
		t.calls, t.drafts = append(t.calls, Call{}), append(t.drafts, draft{})
	}
	t.open[l] = last
	call, d := &t.calls[last], &t.drafts[last]
	call.Args = append(call.Args, "") // for the head
	d.way = w
	return call, d
}

// answer derives the answers to a batch from the replies.
func (t *trip) answer(batch []store.Request) {
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

// recycle gives the trip's memory back, without the caller's keys in it.
func (t *trip) recycle() {
	for i := range t.calls {
		call := &t.calls[i]
		clear(call.Keys)
		clear(call.Args)
		*call = Call{Keys: call.Keys[:0], Args: call.Args[:0]}
		d := &t.drafts[i]
		clear(d.last)
		*d = draft{
			of: d.of[:0], limits: d.limits[:0], limited: d.limited[:0], charges: d.charges[:0], firsts: d.firsts[:0], last: d.last, more: d.more[:0],
		}
	}
	clear(t.names)
	clear(t.open)
	clear(t.long)
	t.calls, t.drafts, t.names, t.split, t.serverTime = t.calls[:0], t.drafts[:0], t.names[:0], false, 0
	trips.Put(t)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
