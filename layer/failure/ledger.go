package failure

import (
	"strings"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ledger has what was admitted without the store, by address. It is bounded, and not safe for concurrent use: the lock is that of
// optimism.
type ledger struct {
	accounts map[address]*account
	entries  int // accounts and grains
	most     int // entries
	owed     int // grains that are owed
	swept    rule.Micros
}

// address is what state belongs to; see store.Store.
type address struct{ prefix, group, key string }

func addressOf(group string, c *store.Charge) address { return address{c.Limit.Prefix(), group, c.Key} }

// account is what a key has used without the store.
type account struct {
	limit   *store.Limit // the last one that was seen: those of one address differ in their quota, say
	horizon rule.Micros  // how long a unit counts
	grains  []grain      // the oldest first
	rest    rule.Micros  // until when nothing is admitted, because the store had no room when it was charged
}

// grain is units of a key that were admitted together, or in short succession. Those of a reservation have a grain of their own.
type grain struct {
	at       rule.Micros // when the first unit was admitted, which names the grain
	last     rule.Micros // when the last one was, from which the grain grows old
	units    int64
	id       rule.ID // of the reservation; 0 if there is none
	call     uint64  // that charges them; 0 while they are owed
	standing standing
	settled  bool  // once is enough
	back     int64 // what that gave back
}

// standing is what the store knows of a grain.
type standing uint8

const (
	owed    standing = iota // nothing: it has yet to be charged
	sent                    // it was sent, and nobody knows whether it was charged: it counts, and is not sent again
	charged                 // it is charged, and does not count here; it is kept to be settled once
	slot                    // a slot of an in-flight limit, which the store is not told of
)

// counts reports whether the units of a grain are among those that the store has not acknowledged.
func (g *grain) counts() bool { return g.standing != charged }

// horizonOf returns how long a unit counts under a limit: a window and a part, or until a bucket has refilled it.
func horizonOf(limit *rule.Limit) rule.Micros {
	if limit.Algorithm == rule.InFlight {
		return limit.Window
	}
	return limit.Memory()
}

// find returns the account of an address without what is too old to count, or nil.
func (l *ledger) find(at address, now rule.Micros) *account {
	a := l.accounts[at]
	if a == nil {
		return nil
	}
	l.drop(a, func(g *grain) bool { return now-g.last >= a.horizon })
	if len(a.grains) == 0 && now >= a.rest {
		l.remove(at)
		return nil
	}
	return a
}

// drop removes grains of an account. It does not allocate, because find calls it at every decision.
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

// remove removes an account with all that is in it.
func (l *ledger) remove(at address) {
	if a := l.accounts[at]; a != nil {
		l.drop(a, func(*grain) bool { return true })
		delete(l.accounts, at)
		l.entries--
	}
}

// open returns the account of an address under a limit, which is a new one if there was none.
func (l *ledger) open(at address, limit *store.Limit) *account {
	a := l.accounts[at]
	if a == nil {
		a = new(account)
		at.group, at.key = strings.Clone(at.group), strings.Clone(at.key) // the caller may use their memory again
		l.accounts[at] = a
		l.entries++
	}
	a.limit, a.horizon = limit, max(a.horizon, horizonOf(limit.Rule()))
	return a
}

// sweepEvery is how often a full ledger is looked through at most: a flood of new keys must not do so at every request.
const sweepEvery = rule.Micros(1_000_000)

// fits reports whether there is memory for so many charges. If need be, it makes some: of what is too old to count, and of what is
// kept only to be settled, which then gives nothing back.
func (l *ledger) fits(charges int, now rule.Micros) bool {
	most := l.most - 2*charges // an account and a grain for each
	if l.entries > most && now-l.swept >= sweepEvery {
		l.swept = now
		for at, a := range l.accounts {
			l.drop(a, func(g *grain) bool { return g.standing == charged })
			l.find(at, now)
		}
	}
	return l.entries <= most
}

// together is how much of the time that a unit counts may lie between the first and the last unit of a grain. All of them count
// until the last one does not.
const together = 64

// add enters units that were admitted now, and returns the name of their grain.
func (l *ledger) add(a *account, g grain) (at rule.Micros) {
	if n := len(a.grains); n > 0 && g.id == 0 && g.standing == owed {
		last := &a.grains[n-1]
		if last.standing == owed && last.id == 0 && g.at-last.at < a.horizon/together {
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

// named returns the grain of that name, or nil.
func (a *account) named(at rule.Micros, id rule.ID) *grain {
	if a == nil {
		return nil
	}
	for i := range a.grains {
		if g := &a.grains[i]; g.id == id && (g.at == at || g.standing == slot) {
			return g
		}
	}
	return nil
}

// take removes up to n units from a grain that the store has not heard of, and returns how many there were. The others stay: the
// store may have charged them.
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

// stand notes what the store knows of a grain now.
func (l *ledger) stand(g *grain, now standing) {
	if g.standing == owed {
		l.owed--
	}
	if g.standing = now; now == owed {
		l.owed++
	}
}
