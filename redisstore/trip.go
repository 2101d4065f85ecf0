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
	drafts []draft        // of the calls
	slots  map[uint16]int // in a cluster, the call for a hash slot
	names  []string       // of the request being planned
	text   []byte
	done   chan any // has room for the word that the client is done with it: what it panicked with, or nil
	split  bool     // two calls may have a key in common
	pairs  bool     // each request is a take of one charge over a window in one part, for which the script has short ways

	serverTime rule.Micros // of a reply that it lies outside of the boundaries that were sent; else 0
}

// draft is what belongs to one call.
type draft struct {
	of      []int // the places in the batch of the requests that it decides
	limits  []uint64
	limited []byte // the limits, packed
	charged []byte // the charges, packed
}

var trips = sync.Pool{New: func() any { return &trip{slots: map[uint16]int{}, done: make(chan any, 1)} }}

// plan writes a batch as the script reads it. A request that cannot be sent gets its error at once.
func (t *trip) plan(s *Store, batch []store.Request) {
	t.pairs = arePairs(batch)
	for i := range batch {
		r := &batch[i]
		if r.Err = t.name(s, r); r.Err != nil {
			continue
		}
		call, d := t.callFor(s)
		d.of = append(d.of, i)
		call.Keys = append(call.Keys, t.names...)
		if t.pairs {
			d.add(&r.Charges[0])
			continue
		}
		for j := range r.Charges {
			t.text = s.appendCharge(t.text[:0], r, j)
			call.Args = append(call.Args, string(t.text))
		}
		if len(t.names) > len(r.Charges) {
			call.Args = append(call.Args, string(appendMemory(t.text[:0], r)), "")
		}
	}
	t.head(s)
}

// head writes what every call begins with, and after it, where the script has a short way, the limits and the charges.
func (t *trip) head(s *Store) {
	now := s.now()
	for i := range t.calls {
		call, d := &t.calls[i], &t.drafts[i]
		t.text = appendNumber(appendNumber(t.text[:0], int64(now)), s.grace)
		switch {
		case !t.pairs:
		case len(call.Keys) == 1:
			t.text = append(append(t.text, d.limited...), d.charged[2:]...) // without the place of the limit
		default:
			call.Args = append(call.Args, "", string(d.limited), string(d.charged))
		}
		call.Args[0] = string(t.text)
	}
}

// arePairs reports whether the script has a short way for all requests of a batch.
func arePairs(batch []store.Request) bool {
	for i := range batch {
		r := &batch[i]
		if r.Op != rule.Take || len(r.Charges) != 1 {
			return false
		}
		if !r.Charges[0].Limit.Rule().IsPair() {
			return false
		}
	}
	return true
}

// add packs a charge for the short way. Limits are packed once for all charges that have them.
func (d *draft) add(charge *store.Charge) {
	id := charge.Limit.ID()
	at := len(d.limits) - 1
	for at >= 0 && d.limits[at] != id {
		at--
	}
	if at < 0 {
		at = len(d.limits)
		d.limits = append(d.limits, id)
		l := charge.Limit.Rule()
		d.limited = append(d.limited, bit(l.Algorithm == rule.FixedWindow), bit(l.Anchor == rule.First), bit(l.CountDenied), byte(l.Overlap))
		d.limited = appendNumber(appendNumber(d.limited, l.Quota), int64(l.Window))
	}
	d.charged = appendNumber(binary.LittleEndian.AppendUint16(d.charged, uint16(at)), charge.Cost)
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
func (t *trip) callFor(s *Store) (*Call, *draft) {
	last := len(t.calls) - 1
	if s.cluster {
		known, ok := t.slots[slot(t.names[0])]
		if last = -1; ok {
			last = known
		}
	}
	if last >= 0 && len(t.calls[last].Keys)+len(t.names) <= maxKeys {
		return &t.calls[last], &t.drafts[last]
	}
	t.split = t.split || last >= 0
	last = len(t.calls)
	if last < min(cap(t.calls), cap(t.drafts)) { // with the memory of an earlier trip
		t.calls, t.drafts = t.calls[:last+1], t.drafts[:last+1]
	} else {
		t.calls, t.drafts = append(t.calls, Call{}), append(t.drafts, draft{})
	}
	if s.cluster {
		t.slots[slot(t.names[0])] = last
	}
	call := &t.calls[last]
	call.Args = append(call.Args, "") // for the head
	return call, &t.drafts[last]
}

// answer derives the answers to a batch from the replies.
func (t *trip) answer(batch []store.Request) {
	for i := range t.calls {
		call := &t.calls[i]
		err := call.Err
		if err != nil {
			err = callError(call)
		} else {
			err = t.read(call.Reply, batch, t.drafts[i].of)
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
		d.of, d.limits, d.limited, d.charged = d.of[:0], d.limits[:0], d.limited[:0], d.charged[:0]
	}
	clear(t.names)
	clear(t.slots)
	t.calls, t.drafts, t.names, t.split, t.serverTime = t.calls[:0], t.drafts[:0], t.names[:0], false, 0
	trips.Put(t)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
