package redisstore

import (
	"encoding/binary"
	"errors"
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
			t.text = appendCharge(t.text[:0], r, &r.Charges[j])
			call.Args = append(call.Args, string(t.text))
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

// arePairs tells whether the script has a short way for all requests of a batch.
func arePairs(batch []store.Request) bool {
	for i := range batch {
		r := &batch[i]
		if r.Op != rule.Take || len(r.Charges) != 1 {
			return false
		}
		if n := r.Charges[0].Limit.Rule().Parts(); n != 1 && n != 2 {
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
	t.calls, t.drafts, t.names, t.split = t.calls[:0], t.drafts[:0], t.names[:0], false
	trips.Put(t)
}

// appendCharge packs a charge as decide.lua unpacks it.
func appendCharge(to []byte, r *store.Request, charge *store.Charge) []byte {
	l := charge.Limit.Rule()
	part := l.Window
	if l.Algorithm == rule.SlidingWindow {
		part /= rule.Micros(l.Segments)
	}
	to = append(to, byte(r.Op), byte(len(r.Charges)), byte(l.Algorithm), byte(l.Overlap), bit(l.Anchor == rule.First), bit(l.CountDenied))
	for _, n := range [...]int64{int64(l.Parts()), l.Quota, l.Burst, int64(l.Window), int64(part), charge.Cost, int64(charge.At)} {
		to = appendNumber(to, n)
	}
	return to
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

var errReply = errors.New("redisstore: the script's reply cannot be read")

// reader reads what the script packed.
type reader struct {
	text string
	bad  bool
}

func (r *reader) bytes(n int) string {
	if r.bad || len(r.text) < n {
		r.bad = true
		return "\x00\x00\x00\x00\x00\x00\x00\x00"[:min(n, 8)]
	}
	b := r.text[:n]
	r.text = r.text[n:]
	return b
}

func (r *reader) byte() byte { return r.bytes(1)[0] }

func (r *reader) short() int { b := r.bytes(2); return int(b[0]) | int(b[1])<<8 }

func (r *reader) number() int64 {
	b := r.bytes(8)
	var bits uint64
	for i := range 8 {
		bits |= uint64(b[i]) << (8 * i)
	}
	return int64(math.Float64frombits(bits))
}

// read reads the answers to those requests of a batch that a call was for.
func (t *trip) read(reply string, batch []store.Request, of []int) error {
	r := &reader{text: reply}
	now := r.number()
	var counts [rule.MaxSegments + 1]int64
	for _, at := range of {
		request := &batch[at]
		if t.pairs {
			request.Answers[0] = r.pair(request.Charges[0].Limit.Rule(), rule.Micros(now), request.Charges[0].Cost, counts[:])
			continue
		}
		for j := range request.Charges {
			request.Answers[j] = r.answer(request.Charges[j].Limit.Rule(), rule.Micros(now), counts[:])
		}
	}
	if r.bad || r.text != "" {
		return errReply
	}
	return nil
}

// pair reads what the short way decided.
func (r *reader) pair(l *rule.Limit, now rule.Micros, cost int64, counts []int64) rule.Answer {
	flags := r.byte()
	s := rule.State{Start: rule.Micros(r.number()), Counts: counts[:l.Parts()]}
	counts[0], counts[1] = r.number(), r.number()
	allowed, moved, absent := flags&1 != 0, flags&2 != 0, flags&4 != 0
	if absent {
		s = rule.State{Start: rule.Absent}
	}
	var granted int64
	if allowed {
		granted = cost
	}
	return derive(l, &s, now, cost, granted, allowed, moved)
}

// derive makes an answer of a state after the decision.
func derive(l *rule.Limit, s *rule.State, now rule.Micros, cost, granted int64, allowed, moved bool) rule.Answer {
	v := l.Look(s, now)
	a := l.Answer(s, &v, cost, granted, allowed)
	if moved {
		a.Flags |= rule.ClockMoved
	}
	return a
}

func (r *reader) answer(l *rule.Limit, now rule.Micros, counts []int64) rule.Answer {
	flags := r.byte()
	length := r.short()
	granted, cost, at := r.number(), r.number(), r.number()
	allowed, moved := flags&1 != 0, flags&2 != 0
	if l.Algorithm == rule.SlidingLog {
		live, newest, blocking := r.number(), r.number(), r.number()
		return l.AnswerLog(live, rule.Micros(newest), rule.Micros(blocking), now, rule.Micros(at), moved, cost, granted, allowed)
	}
	var s rule.State
	switch {
	case length == 0:
		s.Start = rule.Absent
		if l.Algorithm == rule.TokenBucket {
			s.Start = 0
		}
	case l.Algorithm == rule.TokenBucket:
		s.Start, s.Rest = rule.Micros(r.number()), r.number()
	default:
		s.Start = rule.Micros(r.number())
		s.Counts = counts[:l.Parts()]
		for i := range s.Counts {
			s.Counts[i] = r.number()
		}
	}
	return derive(l, &s, now, cost, granted, allowed, moved)
}
