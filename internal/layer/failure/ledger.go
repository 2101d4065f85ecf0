package failure

import (
	"strings"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ledger holds what was admitted without the store, by address. It is bounded, and not safe for concurrent use:
// optimism's lock guards it.
type ledger struct {
	accounts   map[address]*account
	entries    int // number of accounts and grains
	maxEntries int // the maximum of entries
	owed       int // number of grains that are owed
	swept      rule.Micros
}

// address identifies the state of a key under a limit; see store.Store.
type address struct{ prefix, group, key string }

func addressOf(group string, c *store.Charge) address { return address{c.Limit.Prefix(), group, c.Key} }

// account is what a key has used without the store.
type account struct {
	limit   *store.Limit // the last one seen: limits of one address may differ in their quota, for example
	horizon rule.Micros  // how long a unit counts
	grains  []grain      // oldest first
	rest    rule.Micros  // until when nothing is admitted, because the store was exhausted when it was charged
}

// grain is a number of units of a key that were admitted together or in short succession. Those of a reservation have
// their own grain.
type grain struct {
	at       rule.Micros // when the first unit was admitted, which identifies the grain
	last     rule.Micros // when the last unit was admitted, from which the grain ages
	units    int64
	took     int64       // units when they were admitted
	life     rule.Micros // how long after last it is kept; 0 means the account's horizon
	id       rule.ID     // of the reservation or the call; 0 if there is none
	call     uint64      // the call that charges them; 0 while they are owed
	standing standing
	settled  bool  // a grain is settled at most once
	back     int64 // units that the settlement returned
}

// standing is what the store knows about a grain.
type standing uint8

const (
	owed    standing = iota // not charged yet
	sent                    // sent, and unknown whether it was charged: it counts, and is not sent again
	charged                 // charged, and does not count here; it is kept so that it is settled only once
	slot                    // a slot of an in-flight limit, which is not charged at the store
	held                    // units that a reservation holds: what was used of them is owed once it is settled
)

// counts reports whether the units of a grain are among those that the store has not acknowledged.
func (g *grain) counts() bool { return g.standing != charged }

// horizonOf returns how long a unit counts under a limit: a window, for several parts a part more, or until a bucket has
// refilled it. The default has parts at most.
func horizonOf(limit *rule.Limit) rule.Micros {
	switch limit.Algorithm {
	case rule.DefaultAlgorithm, rule.SlidingWindow, rule.TokenBucket:
		return limit.Memory()
	default:
		return limit.Window
	}
}

// lifeOf returns how long after its last unit a grain is kept.
func (a *account) lifeOf(g *grain) rule.Micros {
	if g.life > 0 {
		return g.life
	}
	return a.horizon
}

// find returns the account of an address without grains that are too old to count, or nil.
func (l *ledger) find(at address, now rule.Micros) *account {
	a := l.accounts[at]
	if a == nil {
		return nil
	}
	l.drop(a, func(g *grain) bool { return now-g.last >= a.lifeOf(g) })
	if len(a.grains) == 0 && now >= a.rest {
		l.remove(at)
		return nil
	}
	return a
}

// drop removes grains from an account. It does not allocate, because find calls it at every decision.
func (l *ledger) drop(a *account, which func(*grain) bool) {
	kept := a.grains[:0]
	for i := range a.grains {
		g := &a.grains[i]
		if !which(g) {
			kept = append(kept, *g)
			continue
		}
		if g.standing == owed {
			l.owed--
		}
		l.entries--
	}
	a.grains = kept
}

// remove removes an account and all its grains.
func (l *ledger) remove(at address) {
	if a := l.accounts[at]; a != nil {
		l.drop(a, func(*grain) bool { return true })
		delete(l.accounts, at)
		l.entries--
	}
}

// open returns the account of an address under a limit, creating it if needed.
func (l *ledger) open(at address, limit *store.Limit) *account {
	a := l.accounts[at]
	if a == nil {
		a = new(account)
		at.group, at.key = strings.Clone(at.group), strings.Clone(at.key) // the caller may reuse their memory
		l.accounts[at] = a
		l.entries++
	}
	a.limit, a.horizon = limit, max(a.horizon, horizonOf(limit.Rule()))
	return a
}

// sweepEvery is the shortest interval between sweeps of a full ledger: a flood of new keys must not sweep at every
// request.
const sweepEvery = rule.Micros(1_000_000)

// fits reports whether there is space for that many charges. If necessary, it frees grains that are too old to count,
// and those that are kept only to be settled, which then return nothing.
func (l *ledger) fits(charges int, now rule.Micros) bool {
	limit := l.maxEntries - 2*charges // an account and a grain per charge
	if l.entries > limit && now-l.swept >= sweepEvery {
		l.swept = now
		for at, a := range l.accounts {
			l.drop(a, func(g *grain) bool { return g.standing == charged })
			l.find(at, now)
		}
	}
	return l.entries <= limit
}

// grainFraction divides the time that a unit counts: the first and last unit of a grain are at most that fraction apart. All
// of its units count until the last one no longer does.
const grainFraction = 64

// add records units that were admitted now, and returns the time that identifies their grain.
func (l *ledger) add(a *account, g grain) (at rule.Micros) {
	if n := len(a.grains); n > 0 && g.id == 0 && g.standing == owed {
		last := &a.grains[n-1]
		if last.standing == owed && last.id == 0 && g.at-last.at < a.horizon/grainFraction {
			last.units += g.units
			last.last = g.last
			return last.at
		}
	}
	a.grains = append(a.grains, g)
	l.entries++
	if g.standing == owed {
		l.owed++
	}
	return g.at
}

// unacknowledged returns how many units of an account count.
func (a *account) unacknowledged() (units int64) {
	if a == nil {
		return 0
	}
	for i := range a.grains {
		if a.grains[i].counts() {
			units += a.grains[i].units
		}
	}
	return units
}

// findGrain returns the grain with that time and reservation, or nil.
func (a *account) findGrain(at rule.Micros, id rule.ID) *grain {
	if a == nil {
		return nil
	}
	for i := range a.grains {
		if g := &a.grains[i]; g.id == id && (g.at == at || g.standing == slot || g.standing == held) {
			return g
		}
	}
	return nil
}

// take removes up to n units from a grain that was not sent to the store, and returns how many it removed. Other grains
// are unchanged: the store may have charged them.
func (l *ledger) take(a *account, g *grain, n int64) int64 {
	if g.standing != owed && g.standing != slot {
		return 0
	}
	n = min(n, g.units)
	g.units -= n
	if g.units == 0 {
		l.drop(a, func(g *grain) bool { return g.units == 0 && !g.settled })
	}
	return n
}

// setStanding sets the standing of a grain.
func (l *ledger) setStanding(g *grain, now standing) {
	if g.standing == owed {
		l.owed--
	}
	if g.standing = now; now == owed {
		l.owed++
	}
}
