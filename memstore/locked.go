package memstore

import (
	"cmp"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// job is a request that is decided under the locks of all the segments it touches: several charges, a key that is not
// there yet, or anything but a take. Its memory is used again.
type job struct {
	store  *Store
	op     rule.Op
	id     rule.ID
	claims []claim
	items  []rule.Item
	locks  []*segmentHeader
	answer [1]rule.Answer

	settling settling  // what is remembered of a settlement, and
	memo     rule.Memo // what is known of it already
}

// claim is one charge of a job, and the slot that is kept for it.
type claim struct {
	plan    *plan
	h       uint64
	cost    int64
	used    int64
	at      rule.Micros
	segment segment

	slot      int // claimed, or -1
	word      uint64
	state     rule.State // what the slot holds, or what a key begins with that is not there
	forgotten rule.State // what is lost with the slot's owner, and must be in the floor when the slot is put
	floor     int        // the set's floor, or -1
	evicts    bool       // the slot is taken from a live key
	inherited bool
	counts    []int64 // memory for state.Counts
}

// outcome is what stands in the way of deciding a job.
type outcome int

const (
	ready     outcome = iota
	stale             // a segment was replaced since it was looked up
	needSplit         // a new key's set is full, and its segment can be split
	needTall          // a state may not fit its word any more
	full              // a new key's set is full, and new keys are to be refused then
)

func (s *Store) newJob(op rule.Op, n int) *job {
	j := s.work.Get().(*job)
	j.store, j.op, j.id = s, op, 0
	j.claims = slices.Grow(j.claims[:0], n)[:n]
	j.items = slices.Grow(j.items[:0], n)[:n]
	return j
}

// end gives the job's memory back. What it points to must not be kept alive by it.
func (j *job) end() {
	for i := range j.claims {
		j.claims[i] = claim{counts: j.claims[i].counts[:0]}
	}
	clear(j.items)
	clear(j.locks)
	j.settling = settling{}
	j.store.work.Put(j)
}

// takeOneLocked is TakeSingle for what is not common, such as a key that is not there yet.
func (s *Store) takeOneLocked(p *plan, h uint64, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	j := s.newJob(rule.Take, 1)
	defer j.end()
	c := &j.claims[0]
	c.plan, c.h, c.cost = p, h, cost
	err = j.decide(j.answer[:])
	a := &j.answer[0]
	return a.Allowed, a.Flags, a.Remaining, a.After(), a.ResetAfter, a.At, err
}

func (s *Store) applyLocked(r *store.Request) error {
	j := s.newJob(r.Op, len(r.Charges))
	defer j.end()
	j.id = r.ID
	for i := range r.Charges {
		charge, c := &r.Charges[i], &j.claims[i]
		p, err := s.planOf(charge.Limit)
		if err != nil {
			return err
		}
		c.plan, c.h, c.cost, c.used, c.at = p, p.hash(r.Group, charge.Key), charge.Cost, charge.Used, charge.At
	}
	return j.decide(r.Answers)
}

// mostReplans is how often a request asks for its tables again. A request whose shapes do not fit into MaxShapes together
// would otherwise go on for ever: each table that it asks for takes the place of another one of its own that is still empty.
const mostReplans = 16

// decide tries until nothing stands in the way.
func (j *job) decide(answers []rule.Answer) error {
	for replans := 0; ; {
		j.lock()
		what, c, now := j.open()
		if what == ready {
			j.carryOut(now, answers)
		}
		j.close(what == ready, answers)
		switch what {
		case ready:
			return nil
		case stale:
			again, err := j.replan()
			if err != nil {
				return err
			}
			if again { // and not just a segment that was split, which happens as often as it has to
				replans++
			}
			if replans > mostReplans {
				return tooManyShapes(j.store.opts.MaxShapes)
			}
		case full:
			return ErrFull
		case needSplit:
			c.plan.table.split(c.segment, c.h)
		case needTall:
			c.plan.table.heighten(c.segment.(*packedSegment), c.h)
		}
	}
}

// carryOut applies the operation to the states of all claims.
func (j *job) carryOut(now rule.Micros, answers []rule.Answer) {
	if j.op != rule.Settle {
		rule.Decide(j.op, j.items, now, answers)
		return
	}
	rule.DecideSettle(j.items, &j.memo, now, answers)
	if j.memo.Changed {
		j.store.settlements.remember(&j.settling, now, j.memo.Back)
	}
}

// replan finds the tables of claims again whose own were dropped, and reports whether there were any.
func (j *job) replan() (again bool, err error) {
	for i := range j.claims {
		c := &j.claims[i]
		if !c.plan.table.dropped.Load() {
			continue
		}
		p, err := j.store.newPlan(c.plan.bound)
		if err != nil {
			return false, err
		}
		c.plan, again = p, true
	}
	return again, nil
}

// lock finds the segments of all claims and locks them, in the order in which everybody does.
func (j *job) lock() {
	j.locks = j.locks[:0]
	for i := range j.claims {
		c := &j.claims[i]
		c.segment, c.slot = c.plan.table.segment(c.h), -1
		j.locks = append(j.locks, c.segment.header())
	}
	slices.SortFunc(j.locks, func(a, b *segmentHeader) int { return cmp.Compare(a.order, b.order) })
	j.locks = slices.Compact(j.locks)
	for _, head := range j.locks {
		head.mu.Lock()
	}
}

// open loads the state of every claim and claims its slot. It reads the clock once the keys that are there are claimed: only
// then can nobody else decide about them, nor about those that are not, which takes the lock. It returns the first claim that
// something stands in the way of.
func (j *job) open() (what outcome, in *claim, now rule.Micros) {
	for _, head := range j.locks {
		if head.dead {
			return stale, nil, 0
		}
	}
	// Keys that are there come first, so that no other one takes their place for expired.
	for i := range j.claims {
		c := &j.claims[i]
		c.find()
		j.items[i] = rule.Item{Limit: c.plan.limit, State: &c.state, Cost: c.cost, Used: c.used, At: c.at, ID: j.id}
	}
	now = j.store.now()
	if j.op == rule.Settle {
		j.settling = j.settlingOf(now)
		j.store.settlements.recall(&j.settling, now, &j.memo)
	}
	for i := range j.claims {
		if c := &j.claims[i]; c.slot < 0 {
			if what := c.open(j.op, j.needsPlace(c), now); what != ready {
				return what, c, 0
			}
		}
	}
	for i := range j.claims {
		if c := &j.claims[i]; !c.fits(j.op, now) {
			return needTall, c, 0
		}
	}
	return ready, nil, now
}

// needsPlace reports whether the operation may write a state for a key that is not there, or has to know what it would begin
// with. There is nothing to give back to, to renew or to forget.
func (j *job) needsPlace(c *claim) bool {
	switch j.op {
	case rule.GiveBack, rule.Renew, rule.Reset:
		return false
	case rule.Settle:
		return c.charges() > 0 && !j.memo.Known && !j.memo.Full
	default:
		return true
	}
}

// charges returns how many units a settlement charges to the claim's key beyond what was reserved.
func (c *claim) charges() int64 {
	if c.plan.limit.Algorithm == rule.InFlight {
		return 0
	}
	return max(0, c.used-c.cost)
}

// close stores what changed, if the job was decided, gives all other slots back and unlocks.
func (j *job) close(decided bool, answers []rule.Answer) {
	for i := range j.claims {
		c := &j.claims[i]
		if decided && c.inherited {
			answers[i].Flags |= rule.Inherited
		}
		switch {
		case c.slot < 0:
		case decided && (j.items[i].Changed || j.wouldHide(c)):
			c.put()
		default:
			c.segment.release(c.slot, c)
		}
	}
	for _, head := range j.locks {
		head.mu.Unlock()
	}
}

// wouldHide reports whether a slot that was never used must not be given back as such: a new key of the same request may have
// been placed behind it, where nobody would look for it. Its own key is stored there as it began.
func (j *job) wouldHide(c *claim) bool {
	if c.segment.hash(c.slot) != unused {
		return false
	}
	for i := range j.claims {
		other := &j.claims[i]
		if j.items[i].Changed && other.segment == c.segment && other.slot/setSlots == c.slot/setSlots {
			return true
		}
	}
	return false
}

// find claims the slot of the claim's key, if it is there, and loads its state.
func (c *claim) find() {
	c.evicts, c.inherited = false, false
	for i := range setSlots {
		at := c.probe(i)
		switch c.segment.hash(at) {
		case c.h:
			c.slot = at
			c.segment.claim(c.plan.table, at, c)
			return
		case unused:
			return
		}
	}
}

// probe returns the i-th slot in which the claim's key is looked for.
func (c *claim) probe(i int) int {
	set, home := setOf(c.h, c.plan.table.sets)
	return int(set*setSlots + (home+uint(i))%setSlots)
}

// open finds a place for a key that is not there, and what it begins with: nothing, or the floor of its set.
func (c *claim) open(op rule.Op, needsPlace bool, now rule.Micros) outcome {
	t := c.plan.table
	c.ownState(t)
	if !needsPlace {
		return ready
	}
	c.findFloor(now)
	placed := false
	for i := 0; i < setSlots && !placed; i++ {
		placed = c.segment.claimFree(t, c.probe(i), now, c)
		if placed {
			c.slot = c.probe(i)
		}
	}
	switch {
	case placed:
		c.inheritFloor()
	case t.canSplit(c.segment.header().depth):
		if op != rule.Peek {
			return needSplit
		}
		c.inheritFloor()
	case t.store.opts.RefuseWhenFull || !c.evict(now):
		return full
	}
	if op == rule.Peek && c.slot >= 0 {
		c.segment.release(c.slot, c)
		c.slot = -1
	}
	return ready
}

// ownState makes the claim's state that of a key never seen, in memory of its own.
func (c *claim) ownState(t *table) {
	c.counts = slices.Grow(c.counts[:0], t.limit.Parts())[:t.limit.Parts()]
	c.state = rule.State{Counts: c.counts}
	c.state.Clear()
}

// findFloor reads the floor of the claim's set into forgotten, if there is one that still counts.
func (c *claim) findFloor(now rule.Micros) {
	t, head := c.plan.table, c.segment.header()
	c.floor = -1
	set, _ := setOf(c.h, t.sets)
	if head.floors>>set&1 == 0 {
		return
	}
	for i := range setSlots {
		at := int(set)*setSlots + i
		if c.segment.hash(at) == floorHash && c.segment.read(t, at, &c.forgotten) && t.limit.Expires(&c.forgotten) > now {
			c.floor = at
			return
		}
	}
	head.floors &^= 1 << set
}

// inheritFloor lets the key begin with the floor: it may be one of those that were forgotten.
func (c *claim) inheritFloor() {
	if c.floor >= 0 {
		c.inherit(&c.forgotten)
	}
}

func (c *claim) inherit(from *rule.State) {
	c.inherited = true
	own := from.Clone()
	copy(c.counts, own.Counts)
	own.Counts = c.counts
	c.state = own
}

// evict claims the place of the least-used key. The new one begins with the floor, which covers that key and every one
// forgotten before. A set without a floor gets one first, in the place of its least-used key.
func (c *claim) evict(now rule.Micros) bool {
	t := c.plan.table
	if c.floor < 0 {
		at := c.leastUsed(now)
		if at < 0 {
			return false
		}
		c.segment.claim(t, at, c)
		c.forgotten = c.state.Clone()
		c.segment.set(t, at, floorHash, &c.forgotten)
		c.floor = at
		c.segment.header().floors |= 1 << (at / setSlots)
	}
	at := c.leastUsed(now)
	if at < 0 {
		return false
	}
	c.segment.claim(t, at, c)
	t.limit.Cover(&c.forgotten, &c.state, now)
	c.ownState(t)
	c.inherit(&c.forgotten)
	c.slot, c.evicts = at, true
	return true
}

// leastUsed returns the slot of the key in the claim's set that has used the least, or -1 if all are claimed.
func (c *claim) leastUsed(now rule.Micros) int {
	t := c.plan.table
	best, least := -1, int64(0)
	var s rule.State
	for i := range setSlots {
		at := c.probe(i)
		if c.segment.hash(at) < reserved || !c.segment.read(t, at, &s) {
			continue
		}
		if used := c.plan.limit.Used(&s, now); best < 0 || used < least {
			best, least = at, used
		}
	}
	return best
}

// put stores the claim's state. If that costs another key its place, the floor is raised first.
func (c *claim) put() {
	t := c.plan.table
	if c.evicts {
		var floor rule.State
		c.segment.read(t, c.floor, &floor)
		t.limit.Cover(&floor, &c.forgotten, t.store.now())
		c.segment.set(t, c.floor, floorHash, &floor)
		t.store.evictions.Add(1)
	}
	c.segment.put(t, c.slot, c.h, c)
}

// fits reports whether the claim's state can still be kept as it is after the operation.
func (c *claim) fits(op rule.Op, now rule.Micros) bool {
	if _, packed := c.segment.(*packedSegment); !packed || op == rule.Peek || op == rule.Reset || op == rule.Renew {
		return true
	}
	cost := c.cost
	switch op {
	case rule.Take, rule.TakeUpTo:
		cost = min(cost, c.plan.limit.Capacity())
	case rule.GiveBack:
		cost = 0
	case rule.Settle:
		cost = c.charges()
	}
	return c.plan.table.layout.fits(&c.state, now, cost)
}
