package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/rule"
)

// Op is what a request does.
type Op string

// The operations of a limiter.
const (
	Take   Op = "allow"
	UpTo   Op = "allow up to"
	Peek   Op = "peek"
	Charge Op = "charge"
	Refund Op = "refund"
	Reset  Op = "reset"
	Renew  Op = "renew"
)

// World is what all keys have used, at a time. Call NewWorld.
type World struct {
	Now     Micros
	states  map[string]state
	places  map[string]Place // where each state is, with the last limit that wrote it
	settled map[string]*memory
}

// NewWorld returns a world in which nothing was used.
func NewWorld(now Micros) *World {
	return &World{Now: now, states: map[string]state{}, places: map[string]Place{}, settled: map[string]*memory{}}
}

// Part is one limit of a request.
type Part struct {
	Limit *Limit
	Key   string
	Cost  int64
	At    Micros // of a settlement: when the units were charged
	Used  int64  // of a settlement: instead of Cost
}

// Want is the answer of one limit. The times follow from the state after the decision.
type Want struct {
	Allowed   bool
	Granted   int64
	Remaining int64
	At        Micros
	Moved     bool // the state was too far ahead of the clock
	limit     *Limit
	cost      int64
	now       Micros
	after     state
	refund    bool
}

// look is one limit of a request that is being decided.
type look struct {
	Part
	now     Micros
	group   string
	address string
	state   state // a copy, moved back if the state was ahead
	at      Micros
	ahead   bool
	fits    bool
}

func (w *World) look(group string, parts []Part) []*look {
	looks := make([]*look, len(parts))
	for i, p := range parts {
		k := &look{Part: p, now: w.Now, group: group, address: p.Limit.address(group, p.Key)}
		if found := w.states[k.address]; found != nil {
			k.state = found.clone()
		} else {
			k.state = newState(p.Limit)
		}
		if k.at, k.ahead = k.state.time(p.Limit, w.Now); k.ahead {
			k.state.moveBack(p.Limit, w.Now)
			k.at, _ = k.state.time(p.Limit, w.Now)
		}
		looks[i] = k
	}
	return looks
}

// charge adds units. A state whose form that changes may have an earlier time afterwards.
func (k *look) charge(n int64, refused bool) {
	k.state.charge(k.Limit, k.at, n, refused)
	if k.Limit.Algorithm == rule.DefaultAlgorithm {
		k.at, _ = k.state.time(k.Limit, k.now)
	}
}

func (w *World) write(k *look) {
	w.states[k.address], w.places[k.address] = k.state.clone(), Place{k.address, k.group, k.Key, k.Limit}
}

func (w *World) want(k *look, allowed bool, cost, granted int64) Want {
	return Want{
		Allowed: allowed, Granted: granted, Remaining: max(0, k.state.room(k.Limit, k.at)), At: k.at, Moved: k.ahead,
		limit: k.Limit, cost: cost, now: w.Now, after: k.state,
	}
}

// Room returns what is left of a limit now, negative if more than the quota was used.
func (w *World) Room(group string, p Part) int64 {
	k := w.look(group, []Part{p})[0]
	return k.state.room(k.Limit, k.at)
}

// Decide carries out an operation. Holder is who takes slots.
func (w *World) Decide(op Op, group, holder string, parts []Part) []Want {
	looks := w.look(group, parts)
	switch op {
	case Take:
		return w.take(looks, holder)
	case UpTo:
		return w.upTo(looks)
	case Renew:
		return w.renew(looks, holder)
	}
	wants := make([]Want, len(looks))
	for i, k := range looks {
		switch op {
		case Peek:
			wants[i] = w.want(k, k.Cost <= k.state.room(k.Limit, k.at), k.Cost, 0)
		case Charge:
			k.charge(k.Cost, false)
			w.write(k)
			wants[i] = w.want(k, true, k.Cost, k.Cost)
		case Refund:
			granted := k.state.refund(k.Limit, k.at, k.Cost)
			if granted > 0 {
				w.write(k)
			}
			wants[i] = w.want(k, true, k.Cost, granted)
			wants[i].refund = true
		case Reset:
			delete(w.states, k.address)
		}
	}
	return wants
}

// take charges all limits if all of them admit, and otherwise only those that count their own refusals.
func (w *World) take(looks []*look, holder string) []Want {
	all := true
	for _, k := range looks {
		k.fits = k.Cost <= k.state.room(k.Limit, k.at)
		all = all && k.fits
	}
	wants := make([]Want, len(looks))
	for i, k := range looks {
		switch {
		case k.Cost == 0 && k.fits: // a peek
		case all && k.Limit.Slot():
			k.state.(*slotState).hold(k.Limit, k.at, holder)
			w.write(k)
		case all:
			k.charge(k.Cost, false)
			w.write(k)
		case !k.fits:
			w.refuse(k, k.Cost)
		}
		granted := int64(0)
		if all {
			granted = k.Cost
		}
		wants[i] = w.want(k, k.fits, k.Cost, granted)
	}
	return wants
}

// refuse charges a refusal that counts. Any refusal moves a state that is ahead back to now.
func (w *World) refuse(k *look, cost int64) {
	if k.Limit.CountRefused && cost > 0 && cost <= k.Limit.capacity() {
		k.charge(cost, true)
		w.write(k)
	} else if k.ahead {
		w.write(k)
	}
}

// upTo charges as much as all limits admit, if that is at least one unit.
func (w *World) upTo(looks []*look) []Want {
	grant := int64(most)
	for _, k := range looks {
		grant = min(grant, k.Cost, k.state.room(k.Limit, k.at))
	}
	wants := make([]Want, len(looks))
	for i, k := range looks {
		k.fits = k.state.room(k.Limit, k.at) >= 1
		switch {
		case grant >= 1:
			k.charge(grant, false)
			w.write(k)
		case !k.fits:
			w.refuse(k, 1)
		}
		wants[i] = w.want(k, k.fits, 1, max(0, grant))
	}
	return wants
}

// renew renews the slots that are still held.
func (w *World) renew(looks []*look, holder string) []Want {
	wants := make([]Want, len(looks))
	for i, k := range looks {
		slots := k.state.(*slotState)
		held := slots.holds(k.Limit, k.at, holder)
		if held {
			slots.hold(k.Limit, k.at, holder)
			w.write(k)
		}
		wants[i] = w.want(k, held, k.Cost, 0)
	}
	return wants
}

// tenMinutes is how long a settlement is remembered while there is space, which there is for far more than a game has.
const tenMinutes = 600e6

// memory is a settlement that was carried out.
type memory struct {
	returned []int64
	earlier  [][]int64 // what it and those before it returned, if it was carried out again later
	at       Micros
	certain  Micros // how long it is remembered for certain
	latest   Micros // the latest time since
}

// Settle settles a reservation once. Repeated is what the store answered: whether it remembers an earlier settlement. Settle returns
// what has to be given back, or an error if that answer is wrong.
func (w *World) Settle(group, holder string, parts []Part, repeated bool) ([]int64, error) {
	looks := w.look(group, parts)
	name := looks[0].address + holder
	m := w.settled[name]
	switch {
	case repeated && m == nil:
		return nil, fmt.Errorf("it is said to be repeated, but it is the first")
	case repeated:
		return m.returned, nil
	case m != nil && m.certain > 0 && m.latest-m.at < m.certain:
		return nil, fmt.Errorf("it was forgotten after %v and carried out again; it is to be remembered for %v", duration(w.Now-m.at), duration(m.certain))
	}
	before := m
	m = &memory{at: w.Now, latest: w.Now}
	for _, k := range looks {
		m.returned = append(m.returned, w.settleOne(k, holder))
		if counts := k.Limit.counts(w.Now); counts > 0 {
			m.certain = max(m.certain, counts, tenMinutes)
		}
	}
	if before != nil {
		m.earlier = before.earlier
	}
	m.earlier = append(m.earlier, m.returned)
	w.settled[name] = m
	return slices.Clone(m.returned), nil
}

// Settled reports whether a settlement of a reservation has returned that before: a limiter that carried one out may repeat its
// result, although the store has forgotten it.
func (w *World) Settled(group, holder string, parts []Part, returned []int64) bool {
	m := w.settled[w.look(group, parts)[0].address+holder]
	return m != nil && slices.ContainsFunc(m.earlier, func(earlier []int64) bool { return slices.Equal(earlier, returned) })
}

func (w *World) settleOne(k *look, holder string) (returned int64) {
	switch {
	case k.Limit.Slot():
		if k.state.(*slotState).release(k.Limit, k.at, holder) {
			returned = 1
		}
	case k.Used > k.Cost:
		k.charge(k.Used-k.Cost, false)
		returned = k.Cost - k.Used
	case k.Used < k.Cost:
		returned = k.state.giveBack(k.Limit, k.at, k.At, k.Cost-k.Used)
	}
	if returned != 0 {
		w.write(k)
	}
	return returned
}

// Advance moves the clock, back if by is negative.
func (w *World) Advance(by Micros) {
	w.Now += by
	for _, m := range w.settled {
		m.latest = max(m.latest, w.Now)
	}
}

// Place is where a state is.
type Place struct {
	address    string
	Group, Key string
	Limit      *Limit
}

// Over returns the states that no longer matter: a store may have forgotten them, so if the clock goes back now, it is open whether
// they count again.
func (w *World) Over() (places []Place) {
	for address, s := range w.states {
		if p := w.places[address]; s.over(p.Limit, w.Now) {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b Place) int { return strings.Compare(a.address, b.address) })
	return places
}

// Forget drops a state, as a reset of its key does.
func (w *World) Forget(p Place) { delete(w.states, p.address) }
