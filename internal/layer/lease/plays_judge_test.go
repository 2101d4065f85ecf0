package lease_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// judge replays every spend of all processes through the rule, at the store's time of the spend. It knows only what was
// spent, and what of that was returned: nothing about leases, and nothing about what was charged and lost.
//
// Some events are beyond the promises of leases. There the judge accepts what was leased at that time, and not a unit
// more:
//
//   - A charge that must not be refused, or one by another value of the limit, can be admitted although units are
//     leased. Those are then spent although the rule refuses them: but only until the next admission by the value that
//     they were taken under.
//   - A reset forgets what other processes have leased; those units are then extra, until they have left the window.
//     The same goes for units that a caller returns without having spent them.
type judge struct {
	mu       sync.Mutex
	now      func() rule.Micros
	clean    bool                        // none of the above happens
	written  map[*store.Limit]rule.Limit // the limits as written
	accounts map[address]*account
	values   map[string][]*store.Limit // all values that share counts, by prefix
	kinds    map[string]string         // their names in the output
	spends   map[string]*tallyOfPlay   // by kind
	events   map[string]int64          // other events, by name
	wrong    []string                  // violations
}

// tallyOfPlay counts spends.
type tallyOfPlay struct{ leased, direct, refused int }

type address struct{ prefix, group, key string }

// account is what the judge knows about an address.
type account struct {
	state  rule.State
	out    map[holder]int64       // units that can still be spent
	coming map[*process]int64     // units that are being returned
	late   int64                  // those whose process no longer waits for them
	excess map[*store.Limit]int64 // units that may still be spent although the rule refuses them; see judge
	extra  []extra
	resets map[*process]time.Time // when a process last dropped its leases and reset the key; nil is for any process
}

// holder identifies a process with leased units, and the value of the limit they were taken under.
type holder struct {
	process *process
	limit   *store.Limit
}

// extra is a number of units that are extra until a time.
type extra struct {
	units int64
	until rule.Micros
}

func (j *judge) account(limit *store.Limit, group, key string) *account {
	at := address{limit.Prefix(), group, key}
	a := j.accounts[at]
	if a == nil {
		a = &account{out: map[holder]int64{}, coming: map[*process]int64{}, excess: map[*store.Limit]int64{}, resets: map[*process]time.Time{}}
		j.accounts[at] = a
	}
	return a
}

// spent receives a spend of a process. A spend that is undone belongs to a request that was not admitted.
func (j *judge) spent(p *process, s lease.Spend) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p.dead.Load() {
		return
	}
	a := j.account(s.Limit, s.Group, s.Key)
	if s.Units < 0 {
		j.unspent(p, a, s)
		return
	}
	a.out[holder{p, s.Limit}] -= s.Units
	j.tally(s.Limit).leased++
	j.spend(a, s.Limit, s.Units, fmt.Sprintf("leased at %d until %v, spent at %v", s.At, s.End, s.Now))
}

// unspent receives a spend that was undone. If the address was reset in the meantime, the spend is already forgotten:
// the units are then extra like all that were leased, unless this process reset the address, which then drops them.
func (j *judge) unspent(p *process, a *account, s lease.Spend) {
	j.events["spends were undone, because another limit refused"]++
	j.tally(s.Limit).leased--
	if at, ok := a.resets[p]; ok && p.at(at) >= s.Now {
		return
	}
	a.out[holder{p, s.Limit}] -= s.Units
	if at, ok := a.resets[nil]; ok && p.at(at) >= s.Now {
		j.addExtra(a, s.Limit, -s.Units)
		return
	}
	at := s.At // it may be a while ago, but it was in this part
	if s.Limit.Rule().Algorithm == rule.TokenBucket {
		at = j.now()
	}
	j.takeBack(a, s.Limit, -s.Units, at)
	if excess, open := a.excess[s.Limit]; open {
		a.excess[s.Limit] = min(excess-s.Units, a.leasedUnder(s.Limit))
	}
}

func (j *judge) tally(limit *store.Limit) *tallyOfPlay {
	kind := j.kinds[limit.Prefix()]
	if j.spends[kind] == nil {
		j.spends[kind] = &tallyOfPlay{}
	}
	return j.spends[kind]
}

// spend applies the rule.
func (j *judge) spend(a *account, limit *store.Limit, units int64, how string) {
	r, now := j.written[limit], j.now()
	room := r.Capacity() - r.Used(&a.state, now)
	if units > room+a.onTop(now) {
		if excess := a.excess[limit]; units <= excess {
			a.excess[limit] -= units
			j.tally(limit).refused++
		} else {
			j.addViolation("%d units of %v (%s): the rule refuses them at %d: it has %d left, and %d that were leased; %d more may be extra",
				units, adapter.Unbind(limit), how, now, room, excess, a.onTop(now))
		}
	}
	charge(&r, &a.state, now, units)
}

// charge charges units to a state, whether they fit or not.
func charge(r *rule.Limit, s *rule.State, now rule.Micros, units int64) {
	rule.Decide(rule.Charge, []rule.Item{{Limit: r, State: s, Cost: units}}, now, make([]rule.Answer, 1))
}

// countEvent counts another event.
func (j *judge) countEvent(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events[what]++
}

func (j *judge) addViolation(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// takeBack undoes spends, and returns how many units those were.
func (j *judge) takeBack(a *account, limit *store.Limit, units int64, at rule.Micros) int64 {
	r := j.written[limit]
	var answer [1]rule.Answer
	rule.Decide(rule.GiveBack, []rule.Item{{Limit: &r, State: &a.state, Cost: units, At: at}}, j.now(), answer[:])
	return answer[0].Granted
}

// charged receives a charge that the store has admitted by a value of the limit.
func (j *judge) charged(a *account, limit *store.Limit) {
	for _, other := range j.values[limit.Prefix()] {
		if other != limit {
			a.mayExceed(other)
		}
	}
	delete(a.excess, limit)
}

// forced charges units that must not be refused.
func (j *judge) forced(a *account, limit *store.Limit, units int64) {
	for _, value := range j.values[limit.Prefix()] {
		a.mayExceed(value)
	}
	r := j.written[limit]
	if r.Algorithm == rule.TokenBucket { // a bucket is overdrawn only so far, and then forgets what is leased
		j.addExtra(a, limit, a.leasedUnder(limit))
	}
	charge(&r, &a.state, j.now(), units)
}

// mayExceed accepts what is leased under a value of the limit.
func (a *account) mayExceed(limit *store.Limit) {
	if _, open := a.excess[limit]; !open {
		a.excess[limit] = a.leasedUnder(limit)
	}
}

func (a *account) leasedUnder(limit *store.Limit) (units int64) {
	for h, n := range a.out {
		if h.limit == limit {
			units += n
		}
	}
	return units
}

// givenBack receives units that a caller returned, and how many of them the store accepted.
func (j *judge) givenBack(a *account, limit *store.Limit, units, taken int64, at rule.Micros) {
	mine := j.takeBack(a, limit, units, at)
	r := limit.Rule()
	switch more := taken - mine; {
	case r.Algorithm == rule.TokenBucket && at == rule.Oldest: // the number of returned units is rounded
		j.addExtra(a, limit, more+1)
	case more > 0 && (r.Algorithm == rule.SlidingLog || r.Anchor == rule.AnchorFirst):
		// If a mutant leased them, they were spent at another time than they were charged at: any will do.
		j.takeBack(a, limit, more, rule.Oldest)
	case more > 0 && j.clean:
		j.addViolation("%v: the store accepted %d returned units, of which only %d had been spent", adapter.Unbind(limit), taken, mine)
	case more > 0:
		j.addExtra(a, limit, more)
	}
}

// reset receives that a process reset an address. Its own leases are dropped, and none of its calls that it still waits
// for are under way. But if the reset is late, the process did not wait for it either, and there are other leases.
func (j *judge) reset(p *process, a *account, limit *store.Limit, f fate) {
	if f.late {
		p = nil
	}
	others := a.late
	for h, n := range a.out {
		if h.process == p {
			delete(a.out, h)
		} else {
			others += n
		}
	}
	for other, n := range a.coming {
		if other != p {
			others += n
		}
	}
	j.addExtra(a, limit, others)
	a.resets[p], a.resets[nil] = time.Now(), time.Now()
	a.state = rule.State{}
}

func (j *judge) addExtra(a *account, limit *store.Limit, units int64) {
	if units <= 0 {
		return
	}
	until := rule.MaxNow
	if r := limit.Rule(); r.Algorithm != rule.TokenBucket {
		until = j.now() + 2*r.Window + longestPlayed // a lease's life, and that of late requests
	}
	a.extra = append(a.extra, extra{units, until})
}

func (a *account) onTop(now rule.Micros) (units int64) {
	for _, e := range a.extra {
		if now < e.until {
			units += e.units
		}
	}
	return units
}

// died forgets what a process had leased.
func (j *judge) died(p *process) {
	j.events["processes died"]++
	for _, a := range j.accounts {
		for h := range a.out {
			if h.process == p {
				delete(a.out, h)
			}
		}
	}
}

// returning receives that a process returns units of its leases.
func (j *judge) returning(p *process, r *store.Request, f fate) {
	if p.dead.Load() {
		return
	}
	for _, c := range r.Charges {
		a := j.account(c.Limit, r.Group, c.Key)
		a.out[holder{p, c.Limit}] -= c.Cost
		a.onItsWay(p, c.Cost, f)
	}
}

// onItsWay counts units that are being returned to the store, or have arrived there.
func (a *account) onItsWay(p *process, units int64, f fate) {
	switch {
	case f.never: // it stays charged
	case f.late:
		a.late += units
	default:
		a.coming[p] += units
	}
}

// decidedForLayer receives the store's decision on a request of the layer itself.
func (j *judge) decidedForLayer(p *process, r *store.Request, f fate) {
	if f.unanswered() {
		j.events["answers were lost or late"]++
	}
	for i, c := range r.Charges {
		a := j.account(c.Limit, r.Group, c.Key)
		switch {
		case r.Op == rule.GiveBack:
			a.onItsWay(p, -c.Cost, f)
		case r.Answers[i].Granted > 0:
			j.charged(a, c.Limit)
			if !f.unanswered() && !p.dead.Load() {
				a.out[holder{p, c.Limit}] += r.Answers[i].Granted
			}
		}
	}
}

// decided receives the store's decision on a caller's request.
func (j *judge) decided(p *process, r *store.Request, f fate) {
	_, admitted := answering.Deciding(r.Answers)
	if f.unanswered() {
		j.events["answers were lost or late"]++
	}
	if r.Op == rule.Settle {
		j.events["reservations were settled"]++
	}
	for i, c := range r.Charges {
		a, answer := j.account(c.Limit, r.Group, c.Key), &r.Answers[i]
		switch r.Op {
		case rule.Take, rule.TakeUpTo:
			if !admitted || answer.Granted == 0 {
				continue
			}
			j.charged(a, c.Limit)
			// Where the window begins with the first charge, that may be a charge whose answer was lost.
			if !f.unanswered() || c.Limit.Rule().Anchor == rule.AnchorFirst {
				j.tally(c.Limit).direct++
				j.spend(a, c.Limit, answer.Granted, "admitted by the store")
			}
		case rule.Charge:
			j.forced(a, c.Limit, c.Cost)
		case rule.GiveBack:
			j.givenBack(a, c.Limit, c.Cost, answer.Granted, c.At)
		case rule.Settle:
			switch {
			case answer.Flags&(rule.Repeated|rule.Unsettled) != 0:
			case c.Used > c.Cost:
				j.forced(a, c.Limit, c.Used-c.Cost)
			case c.Used < c.Cost:
				j.givenBack(a, c.Limit, c.Cost-c.Used, answer.Granted, c.At)
			}
		case rule.Reset:
			j.reset(p, a, c.Limit, f)
		}
	}
}
