package redisstore

import (
	"encoding/binary"
	"errors"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// path is how the script decides the charges of a call.
type path byte

// Values of path. All but the general one are for requests of one charge each; see isPlain.
const (
	generalPath path = iota
	windowPath
	partsPath
	bucketPath
	logPath
	defaultPath
	paths // the number of paths
)

// pathOf returns the path for takes of one charge, and whether the script can use it for this limit: other limits of the
// same shape have the same path, but may be too large for it.
func pathOf(l *rule.Limit) (p path, fits bool) {
	switch {
	case quick.IsPair(l):
		return windowPath, true
	case l.Algorithm == rule.SlidingWindow:
		return partsPath, true
	case l.Algorithm == rule.TokenBucket:
		return bucketPath, float64(l.Burst)*float64(l.Window) < 1<<53 // a debt is one number there
	case l.Algorithm == rule.SlidingLog:
		return logPath, true
	case l.Algorithm == rule.DefaultAlgorithm:
		return defaultPath, true
	default:
		return generalPath, true
	}
}

// choosePaths determines which fast paths can be used for a batch: only those that fit all of its limits. Requests that
// are not plain take the general path, and so do those that share a key with one of them. So requests that share a key take
// the same path, in which they stay in order.
func (t *roundTrip) choosePaths(s *Store, batch []store.Request) {
	t.fits = [paths]bool{true, true, true, true, true, true}
	clear(t.long)
	plain := 0
	for i := range batch {
		if !isPlain(&batch[i]) {
			continue
		}
		plain++
		if p, fits := pathOf(batch[i].Charges[0].Limit.Rule()); !fits {
			t.fits[p] = false
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

// isPlain reports whether a request has one charge and can take a fast path.
func isPlain(r *store.Request) bool {
	if len(r.Charges) != 1 {
		return false
	}
	c := &r.Charges[0]
	l := c.Limit.Rule()
	switch r.Op {
	case rule.Take:
		return !r.Once && !holds(r, l)
	case rule.TakeUpTo:
		return l.Algorithm != rule.SlidingLog
	case rule.GiveBack: // of the units in a log of a limit that names no algorithm, the general path
		return l.Algorithm != rule.SlidingLog && c.At != rule.Oldest && c.Cost > 0 && c.Cost <= l.Capacity()
	}
	return false
}

// fastCost returns the cost as the script receives it: negative for TakeUpTo.
func fastCost(r *store.Request) int64 {
	if r.Op == rule.TakeUpTo {
		return -r.Charges[0].Cost
	}
	return r.Charges[0].Cost
}

// pathFor returns the path of the request whose keys were named last.
func (t *roundTrip) pathFor(r *store.Request) path {
	if !isPlain(r) {
		return generalPath
	}
	p, _ := pathOf(r.Charges[0].Limit.Rule())
	if !t.fits[p] {
		return generalPath
	}
	if len(t.long) > 0 {
		if _, long := t.long[t.names[0]]; long {
			return generalPath
		}
	}
	return p
}

// fastCharge is a charge of a call that takes a fast path.
type fastCharge struct {
	at    int // the index of the request in the batch
	limit int // the index of the limit
	next  int // the index of the next charge of the same key; 0 if there is none
}

// add adds a charge to a call that takes a fast path. Each key is sent once.
func (d *draft) add(call *Call, name string, at int, r *store.Request) {
	index, cost := len(d.charges), fastCost(r)
	if index == 0 {
		d.cost, d.even = cost, true
	}
	c := fastCharge{at: at, limit: d.limit(r.Charges[0].Limit, cost)}
	d.even = d.even && c.limit == 0 && cost == d.cost && r.Op != rule.GiveBack
	d.charges = append(d.charges, c)
	if last, known := d.recordCharge(call, name, index); known {
		d.charges[last].next = index
		d.even = false
		return
	}
	call.Keys = append(call.Keys, name)
	d.firstCharges = append(d.firstCharges, index)
}

// recordCharge records the index of a key's charge, and returns the index of its previous charge.
func (d *draft) recordCharge(call *Call, name string, index int) (last int, known bool) {
	switch {
	case index == 0: // many calls have no other key
		return 0, false
	case d.last == nil:
		d.last = make(map[string]int)
	}
	if index == 1 {
		d.last[call.Keys[0]] = 0
	}
	last, known = d.last[name]
	d.last[name] = index
	return last, known
}

// limit returns the index of a charge's limit, which is packed once for all of its charges, with the cost of the first.
func (d *draft) limit(limit *store.Limit, cost int64) int {
	id := limit.ID()
	at := len(d.limits) - 1
	for at >= 0 && d.limits[at] != id {
		at--
	}
	if at < 0 {
		at = len(d.limits)
		d.limits = append(d.limits, id)
		d.packedLimits = appendLimit(d.packedLimits, &store.Charge{Limit: limit, Cost: cost}, rule.Take, 1, 0)
	}
	return at
}

// appendList packs the charges of a call, those of each key in a row, because charges of other keys do not depend on
// them. If it contains refunds, it also returns when their units were charged.
func (d *draft) appendList(to []byte, batch []store.Request) (list []byte, given []byte) {
	d.of = d.of[:0] // rebuilt in this order
	for _, index := range d.firstCharges {
		for more := true; more; {
			c := &d.charges[index]
			index, more = c.next, c.next > 0
			d.of, d.more = append(d.of, c.at), append(d.more, more)
			flags := bit(more)
			if r := &batch[c.at]; r.Op == rule.GiveBack {
				flags += fastBack
				given = appendNumber(given, int64(r.Charges[0].At))
			}
			to = binary.LittleEndian.AppendUint16(append(to, flags), uint16(c.limit))
			to = appendNumber(to, fastCost(&batch[c.at]))
		}
	}
	return to, given
}

// fastBack is the flag of a refund.
const fastBack = 2

// Flags of the reply of a fast path to a charge.
const (
	fastAllowed = 1
	fastInParts = 2 // no algorithm named: the units are in parts now
	fastAbsent  = 4 // there was no value
	fastTimes   = 8 // when two units were charged: their times follow, or how many parts ago that was
)

// errDisagrees is the error of a request that the script has decided differently from the rule.
var errDisagrees = errors.New("redisstore: the script and the rule disagree, and the request may have been charged; this is a bug, please report it")

// readFast reads the reply of a fast path: its decisions on n charges, and the values of their keys before them.
func (d *draft) readFast(r *reader, n int, now rule.Micros, batch []store.Request, counts []int64) {
	each := 1 // bytes of flags, and of what follows them
	if d.path >= logPath {
		each = 6
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
	same := false // the previous charge has the same key
	for i, at := range d.of[:n] {
		request, own := &batch[at], flags[each*i:]
		charge := &request.Charges[0]
		l := charge.Limit.Rule()
		if d.path >= logPath {
			request.Answers[0], request.Err = r.fastUnits(l, own, now, request)
			continue
		}
		if !same {
			s = r.readValue(l, d.path, own[0]&fastAbsent != 0, counts)
		}
		same = !d.even && d.more[i]
		if request.Answers[0] = decideFast(l, &s, request, now); changes(request) != (own[0]&fastAllowed != 0) {
			request.Answers[0], request.Err = rule.Answer{}, errDisagrees
		}
	}
}

// decideFast decides a request by the rule.
func decideFast(l *rule.Limit, s *rule.State, r *store.Request, now rule.Micros) (a rule.Answer) {
	charge := &r.Charges[0]
	switch r.Op {
	case rule.GiveBack:
		var answer [1]rule.Answer
		items := [1]rule.Item{{Limit: l, State: s, Cost: charge.Cost, At: charge.At}}
		rule.Decide(rule.GiveBack, items[:], now, answer[:])
		return answer[0]
	case rule.TakeUpTo:
		a, _ = l.TakeOne(s, now, min(charge.Cost, max(1, l.Capacity()-l.Used(s, now))))
	default:
		a, _ = l.TakeOne(s, now, charge.Cost)
	}
	return a
}

// changes reports whether a request was allowed, or has returned any units.
func changes(r *store.Request) bool {
	if r.Op == rule.GiveBack {
		return r.Answers[0].Granted > 0
	}
	return r.Answers[0].Allowed
}

// readValue reads a value in the format of the fast paths.
func (r *reader) readValue(l *rule.Limit, p path, absent bool, counts []int64) (s rule.State) {
	switch {
	case p == bucketPath && absent:
	case p == bucketPath:
		s.Start, s.Missing, s.Rest, s.Until = r.micros(), r.number(), r.number(), r.micros()
		_ = r.byte() // the version
	case absent:
		s.Start, s.Counts = rule.Absent, counts[:l.Parts()]
		clear(s.Counts)
	case p == windowPath:
		s.Start, s.Counts = r.micros(), counts[:l.Parts()]
		for i := range s.Counts {
			s.Counts[i] = r.number()
		}
	default:
		s.Start, s.Counts = r.micros(), counts[:l.Parts()]
		_ = r.number() // their sum
		_ = r.short()  // the version, and the place of the oldest count
		for i := range s.Counts {
			s.Counts[i] = int64(r.short())
		}
	}
	return s
}

// fastUnits reads how many units counted before a charge, and, where the answer depends on it, when the newest one was charged
// and which one must expire first. Units in parts have the time at which their part ends: they count until a window after that.
func (r *reader) fastUnits(l *rule.Limit, flags string, now rule.Micros, request *store.Request) (rule.Answer, error) {
	newest, blocking := now, rule.Micros(0)
	switch {
	case flags[0]&fastInParts != 0:
		part := l.Window / rule.Micros(l.Segments)
		end := now - now%part + part // of the current one
		newest, blocking = end-rule.Micros(flags[4])*part, end-rule.Micros(flags[5])*part
	case flags[0]&fastTimes != 0:
		newest, blocking = r.micros(), r.micros()
	}
	live, cost, allowed := int64(flags[1])|int64(flags[2])<<8|int64(flags[3])<<16, request.Charges[0].Cost, flags[0]&fastAllowed != 0
	switch request.Op {
	case rule.GiveBack: // live is what counts afterwards
		granted := r.number()
		if granted < 0 || granted > cost || (granted > 0) != allowed {
			return rule.Answer{}, errDisagrees
		}
		return port.AnswerLog(l, live, newest, blocking, now, now, false, cost, granted, true), nil
	case rule.TakeUpTo:
		cost = min(cost, max(1, l.Quota-live))
	}
	if allowed != (live+cost <= l.Quota) {
		return rule.Answer{}, errDisagrees
	}
	granted := int64(0)
	if allowed {
		granted = cost
	}
	switch held := live; {
	case !allowed && (!l.CountRefused || cost > l.Quota):
	case l.Algorithm == rule.SlidingLog:
		live = min(live+cost, max(held, l.Quota))
	default:
		live += cost
	}
	return port.AnswerLog(l, live, newest, blocking, now, now, false, cost, granted, allowed), nil
}
