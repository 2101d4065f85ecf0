package redisstore

import (
	"encoding/binary"
	"errors"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// way is how the script decides the charges of a call.
type way byte

// The ways. All but the long one are for requests of one charge each; see isPlain.
const (
	longWay way = iota
	windowWay
	partsWay
	bucketWay
	logWay
	ways // how many there are
)

// maxShortLog is the largest quota of a log that has a short way, which reads the logs of all keys at once.
const maxShortLog = 1000

// wayOf returns the way for takes of one charge, and whether the script can go it for this limit: other limits of the same shape
// have the same way, but may be too large for it.
func wayOf(l *rule.Limit) (w way, fits bool) {
	switch {
	case l.IsPair():
		return windowWay, true
	case l.Algorithm == rule.SlidingWindow:
		return partsWay, true
	case l.Algorithm == rule.TokenBucket:
		return bucketWay, float64(l.Burst+l.Quota)*float64(l.Window) < 1<<53 // a debt is one number there
	case l.Algorithm == rule.SlidingLog:
		return logWay, l.Quota <= maxShortLog
	default:
		return longWay, true
	}
}

// chooseWays finds out which short ways can be gone for a batch: none that does not fit one of its limits. All but plain
// requests go the long way, and so do those that have a key in common with one of those. So requests that have a key in common go the
// same way, in which they stay in order.
func (t *trip) chooseWays(s *Store, batch []store.Request) {
	t.fits = [ways]bool{true, true, true, true, true}
	clear(t.long)
	plain := 0
	for i := range batch {
		if !isPlain(&batch[i]) {
			continue
		}
		plain++
		if w, fits := wayOf(batch[i].Charges[0].Limit.Rule()); !fits {
			t.fits[w] = false
		}
	}
	if plain == 0 || plain == len(batch) {
		return
	}
	for i := range batch {
		if r := &batch[i]; !isPlain(r) && t.name(s, r) == nil {
			for _, name := range t.names {
				t.long[name] = struct{}{}
			}
		}
	}
}

// isPlain reports whether a request is of one charge and such that it can go a short way.
func isPlain(r *store.Request) bool {
	if len(r.Charges) != 1 {
		return false
	}
	c := &r.Charges[0]
	l := c.Limit.Rule()
	switch r.Op {
	case rule.Take:
		return true
	case rule.TakeUpTo:
		return l.Algorithm != rule.SlidingLog
	case rule.GiveBack:
		return l.Algorithm != rule.SlidingLog && c.At != rule.Oldest && c.Cost > 0 && c.Cost <= l.Capacity()
	}
	return false
}

// shortCost is what the script is told of a cost: the cost, negative if as much of it as there is room for is taken.
func shortCost(r *store.Request) int64 {
	if r.Op == rule.TakeUpTo {
		return -r.Charges[0].Cost
	}
	return r.Charges[0].Cost
}

// wayFor returns the way of the request just named.
func (t *trip) wayFor(r *store.Request) way {
	if !isPlain(r) {
		return longWay
	}
	w, _ := wayOf(r.Charges[0].Limit.Rule())
	if !t.fits[w] {
		return longWay
	}
	if len(t.long) > 0 {
		if _, long := t.long[t.names[0]]; long {
			return longWay
		}
	}
	return w
}

// shortCharge is a charge of a call that takes a short way.
type shortCharge struct {
	at    int // the place of the request in the batch
	limit int // the place of the limit
	next  int // the place of the next charge of the same key; 0 if there is none
}

// add adds a charge to a call that takes a short way. A key is sent once.
func (d *draft) add(call *Call, name string, at int, r *store.Request) {
	place, cost := len(d.charges), shortCost(r)
	if place == 0 {
		d.cost, d.even = cost, true
	}
	c := shortCharge{at: at, limit: d.limit(r.Charges[0].Limit, cost)}
	d.even = d.even && c.limit == 0 && cost == d.cost && r.Op != rule.GiveBack
	d.charges = append(d.charges, c)
	if last, known := d.seen(call, name, place); known {
		d.charges[last].next = place
		d.even = false
		return
	}
	call.Keys = append(call.Keys, name)
	d.firsts = append(d.firsts, place)
}

// seen notes that a key has the charge at a place, and returns the place of its last one before.
func (d *draft) seen(call *Call, name string, place int) (last int, known bool) {
	switch {
	case place == 0: // many calls have no other key
		return 0, false
	case d.last == nil:
		d.last = make(map[string]int)
	}
	if place == 1 {
		d.last[call.Keys[0]] = 0
	}
	last, known = d.last[name]
	d.last[name] = place
	return last, known
}

// limit returns the place of a charge's limit, which is packed once for all charges that have it, with the cost of the first.
func (d *draft) limit(limit *store.Limit, cost int64) int {
	id := limit.ID()
	at := len(d.limits) - 1
	for at >= 0 && d.limits[at] != id {
		at--
	}
	if at < 0 {
		at = len(d.limits)
		d.limits = append(d.limits, id)
		d.limited = appendLimit(d.limited, &store.Charge{Limit: limit, Cost: cost}, rule.Take, 1, false)
	}
	return at
}

// appendList packs the charges of a call, those of each key in a row, because those of other keys do not depend on them. If any
// are to be given back, it also returns when those were charged.
func (d *draft) appendList(to []byte, batch []store.Request) (list []byte, given []byte) {
	d.of = d.of[:0] // once more, in this order
	for _, place := range d.firsts {
		for more := true; more; {
			c := &d.charges[place]
			place, more = c.next, c.next > 0
			d.of, d.more = append(d.of, c.at), append(d.more, more)
			flags := bit(more)
			if r := &batch[c.at]; r.Op == rule.GiveBack {
				flags += shortBack
				given = appendNumber(given, int64(r.Charges[0].At))
			}
			to = binary.LittleEndian.AppendUint16(append(to, flags), uint16(c.limit))
			to = appendNumber(to, shortCost(&batch[c.at]))
		}
	}
	return to, given
}

// shortBack is the flag of a charge that is to be given back.
const shortBack = 2

// The flags of what a short way replies of a charge.
const (
	shortAllowed = 1
	shortAbsent  = 4 // there was no value
	shortTimes   = 8 // the times of two units of the log follow
)

// errDisagrees is the error of a request that the script has decided otherwise than the rule does.
var errDisagrees = errors.New("redisstore: the script and the rule disagree; the request may have been charged: this is a bug, please report it")

// readShort reads what a short way has decided: n charges, and the values of their keys as they were before.
func (d *draft) readShort(r *reader, n int, now rule.Micros, batch []store.Request, counts []int64) {
	each := 1 // bytes of flags
	if d.way == logWay {
		each = 3
	}
	if n > len(d.of) {
		r.bad = true
		return
	}
	flags := r.bytes(each * n)
	if r.bad {
		return
	}
	var s rule.State
	same := false // the key is that of the charge before
	for i, at := range d.of[:n] {
		request, own := &batch[at], flags[each*i:]
		charge := &request.Charges[0]
		l := charge.Limit.Rule()
		if d.way == logWay {
			request.Answers[0], request.Err = r.shortLog(l, own, now, charge.Cost)
			continue
		}
		if !same {
			s = r.stored(l, d.way, own[0]&shortAbsent != 0, counts)
		}
		same = !d.even && d.more[i]
		if request.Answers[0] = decideShort(l, &s, request, now); changes(request) != (own[0]&shortAllowed != 0) {
			request.Answers[0], request.Err = rule.Answer{}, errDisagrees
		}
	}
}

// decideShort decides a request by the rule.
func decideShort(l *rule.Limit, s *rule.State, r *store.Request, now rule.Micros) (a rule.Answer) {
	charge := &r.Charges[0]
	switch r.Op {
	case rule.GiveBack:
		var answer [1]rule.Answer
		items := [1]rule.Item{{Limit: l, State: s, Cost: charge.Cost, At: charge.At}}
		rule.Decide(rule.GiveBack, items[:], now, answer[:])
		return answer[0]
	case rule.TakeUpTo:
		a, _ = l.TakeUpToOne(s, now, charge.Cost)
	default:
		a, _ = l.TakeOne(s, now, charge.Cost)
	}
	return a
}

// changes reports whether a request was allowed, or has given anything back.
func changes(r *store.Request) bool {
	if r.Op == rule.GiveBack {
		return r.Answers[0].Granted > 0
	}
	return r.Answers[0].Allowed
}

// stored reads a value as the short ways know it.
func (r *reader) stored(l *rule.Limit, w way, absent bool, counts []int64) (s rule.State) {
	switch {
	case w == bucketWay && absent:
	case w == bucketWay:
		full, fraction := r.micros(), r.number()
		s.Start, s.Missing, s.Rest = r.micros(), r.number(), r.number()
		if fraction > 0 {
			full++
		}
		s.Until = max(s.Start+l.Window, full)
		_ = r.bytes(2)
	case absent:
		s.Start, s.Counts = rule.Absent, counts[:l.Parts()]
		clear(s.Counts)
	case w == windowWay:
		s.Start, s.Counts = r.micros(), counts[:l.Parts()]
		for i := range s.Counts {
			s.Counts[i] = r.number()
		}
	default:
		s.Start, s.Counts = r.micros(), counts[:l.Parts()]
		_ = r.number() // their sum
		for i := range s.Counts {
			s.Counts[i] = int64(r.short())
		}
		_ = r.byte() // the version
	}
	return s
}

// shortLog reads how many units of a log counted before a charge, and where the answer depends on it, when the newest unit was
// charged and which one must expire first.
func (r *reader) shortLog(l *rule.Limit, flags string, now rule.Micros, cost int64) (rule.Answer, error) {
	newest, blocking := now, rule.Micros(0)
	if flags[0]&shortTimes != 0 {
		newest, blocking = r.micros(), r.micros()
	}
	live := int64(flags[1]) | int64(flags[2])<<8
	allowed := live+cost <= l.Quota
	if allowed != (flags[0]&shortAllowed != 0) {
		return rule.Answer{}, errDisagrees
	}
	granted := int64(0)
	if allowed {
		granted = cost
	}
	if allowed || l.CountDenied && cost <= l.Quota {
		live = min(live+cost, l.Quota)
	}
	return l.AnswerLog(live, newest, blocking, now, now, false, cost, granted, allowed), nil
}
