package memstore

import (
	"cmp"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// job is a request that is decided under the locks of all the pages it touches: several charges, a key that is not
// there yet, or anything but a take. Its memory is used again.
type job struct {
	store  *Store
	op     rule.Op
	id     rule.ID
	claims []claim
	items  []rule.Item
	locks  []*page
	answer [1]rule.Answer
	moment rule.Micros // the moment that decides, as a clock
	fixed  clock

	settling settling  // what is remembered of a settlement, and
	memo     rule.Memo // what is known of it already
}

// claim is one charge of a job, and the slot that is kept for it.
type claim struct {
	plan *plan
	h    uint64
	cost int64
	used int64
	at   rule.Micros
	page *page
	form form

	slot      int // claimed, or -1
	word      uint64
	state     rule.State // what the slot holds, or what a key begins with that is not there
	evicts    bool       // the slot is taken from a live key,
	victim    uint64     // whose hash this is,
	lost      rule.State // and which had this state
	inherited bool
	lazy      bool // the state is still in the slot alone
	crowded   bool // there is no room for another page
	line      line // a copy of the slot, which has been charged if copied is set
	copied    bool
	counts    []int64 // memory for state.Counts
}

// outcome is what stands in the way of deciding a job.
type outcome int

const (
	ready      outcome = iota
	stale              // a page was replaced since it was looked up
	needSplit          // a new key finds no place in its page, which can be split
	needSecond         // a state may not fit its form any more
	full               // a new key finds no place, and new keys are to be refused then
)

func newJobMemory() *job {
	j := new(job)
	j.fixed.now = func() rule.Micros { return j.moment }
	return j
}

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
		j.claims[i] = claim{counts: j.claims[i].counts[:0], state: rule.State{Log: j.claims[i].state.Log, Slots: j.claims[i].state.Slots[:0]}}
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

// mostReplans is how often a request asks for its tables again. A request whose limits do not fit into MaxLimits together
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
			j.trim()
			return nil
		case stale:
			again, err := j.replan()
			if err != nil {
				return err
			}
			if again { // and not just a page that was split, which happens as often as it has to
				replans++
			}
			if replans > mostReplans {
				return tooManyLimits(j.store.opts.MaxLimits)
			}
		case full:
			return ErrFull
		case needSplit:
			t := c.plan.table
			c.crowded = !t.reservePage() || !t.split(c.page, c.h)
		case needSecond:
			c.plan.table.heighten(c.page, c.h)
		}
	}
}

// trim brings the store back under its bound, if the job's states took it beyond.
func (j *job) trim() {
	if j.store.used.Load() <= j.store.room {
		return
	}
	for i := range j.claims {
		j.claims[i].plan.table.trim()
	}
}

// carryOut applies the operation to the states of all claims.
func (j *job) carryOut(now rule.Micros, answers []rule.Answer) {
	if j.op == rule.Reset {
		for i := range j.claims {
			j.claims[i].resetForgotten(now)
		}
	}
	if j.takesLines() && j.takeLines(now, answers) {
		return
	}
	for i := range j.claims {
		j.claims[i].loadState()
	}
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

// lock finds the pages of all claims and locks them, in the order in which everybody does.
func (j *job) lock() {
	j.locks = j.locks[:0]
	for i := range j.claims {
		c := &j.claims[i]
		c.page, c.slot = c.plan.table.page(c.h), -1
		c.form = c.plan.table.form(c.page)
		j.locks = append(j.locks, c.page)
	}
	slices.SortFunc(j.locks, func(a, b *page) int { return cmp.Compare(a.order, b.order) })
	j.locks = slices.Compact(j.locks)
	for _, g := range j.locks {
		g.mu.Lock()
	}
}

// open loads the state of every claim and claims its slot. It reads the clock once the keys that are there are claimed: only
// then can nobody else decide about them, nor about those that are not, which takes the lock. It returns the first claim that
// something stands in the way of.
func (j *job) open() (what outcome, in *claim, now rule.Micros) {
	for _, g := range j.locks {
		if g.dead {
			return stale, nil, 0
		}
	}
	// Keys that are there come first, so that no other one takes their place for expired.
	for i := range j.claims {
		c := &j.claims[i]
		c.find(j.claims[:i])
		j.items[i] = rule.Item{Limit: c.plan.limit, State: &c.state, Cost: c.cost, Used: c.used, At: c.at, ID: j.id}
	}
	now = j.store.clock.read()
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
		switch c := &j.claims[i]; {
		case c.slot < 0 || !j.grows():
		case !c.fits(j.op, now):
			return needSecond, c, 0
		case c.plan.table.isStuffed():
			return full, c, 0
		}
	}
	return ready, nil, now
}

// grows reports whether the operation may add units to a state.
func (j *job) grows() bool {
	switch j.op {
	case rule.Take, rule.TakeUpTo, rule.Charge, rule.Settle:
		return true
	default:
		return false
	}
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
			c.countRecalled(&answers[i])
		}
		switch {
		case c.slot < 0:
		case c.copied:
			c.putLine()
		case decided && (j.items[i].Changed || j.wouldHide(c)):
			c.put()
		default:
			c.form.release(c.page, c.slot, c.word)
		}
	}
	for _, g := range j.locks {
		g.mu.Unlock()
	}
}

// countRecalled marks an answer about a key that was forgotten, or looks like one that was.
func (c *claim) countRecalled(a *rule.Answer) {
	a.Flags |= rule.Inherited
	counts := &c.plan.table.counts
	counts.recalled.Add(1)
	if !a.Allowed {
		counts.refused.Add(1)
	}
}

// wouldHide reports whether a slot that was never used must not be given back as such: a new key of the same request may have
// been placed behind it, where nobody would look for it. Its own key is stored there as it began.
func (j *job) wouldHide(c *claim) bool {
	if c.form.hash(c.page, c.slot) != unused {
		return false
	}
	for i := range j.claims {
		if other := &j.claims[i]; other != c && j.items[i].Changed && other.page == c.page && other.slot >= 0 {
			return true
		}
	}
	return false
}

// find claims the slot of the claim's key, if it is there, and loads its state. Two claims of a job never have the same key, and
// could have the same hash by chance.
func (c *claim) find(earlier []claim) {
	c.evicts, c.inherited, c.lazy, c.copied = false, false, false, false
	for i := range earlier {
		if earlier[i].h == c.h {
			return
		}
	}
	i := find(c.form, c.page, c.h)
	if i < 0 {
		return
	}
	c.slot = i
	c.word = c.form.claim(c.page, i)
	c.ownState()
	if c.lazy = c.isLog(); !c.lazy {
		c.form.load(c.plan.table, c.page, i, c.word, &c.state)
		c.counts = c.state.Counts
	}
}

// loadState loads the state that find left where it was.
func (c *claim) loadState() {
	if c.lazy {
		c.form.load(c.plan.table, c.page, c.slot, c.word, &c.state)
		c.lazy = false
	}
}

// open finds a place for a key that is not there, and what it begins with: nothing, or what is known of it from before it was
// forgotten, or before a restart.
func (c *claim) open(op rule.Op, needsPlace bool, now rule.Micros) outcome {
	t := c.plan.table
	c.ownState()
	known := t.legacy.recall(c, now)
	if !known && !needsPlace {
		return ready
	}
	if !known {
		c.recallForgotten(now)
	}
	if op == rule.Peek {
		return ready
	}
	switch {
	case c.placeFree(now):
	case !c.crowded && c.page.depth < maxDepth:
		return needSplit
	case t.store.opts.RefuseWhenFull || !c.evict(now):
		return full
	}
	return ready
}

// ownState makes the claim's state that of a key never seen, in memory of its own.
func (c *claim) ownState() {
	n := c.plan.table.limit.Parts()
	c.counts = slices.Grow(c.counts[:0], n)[:n]
	c.state = rule.State{Counts: c.counts, Log: c.state.Log, Slots: c.state.Slots[:0]}
	c.state.Clear()
}

// put stores the claim's state. If that costs another key its place, that is remembered first.
func (c *claim) put() {
	t := c.plan.table
	if c.evicts {
		t.forget(c.victim, &c.lost, t.store.clock.read())
	}
	if c.form.hash(c.page, c.slot) == unused {
		t.counts.held.Add(1)
	}
	c.page.fullUntil = min(c.page.fullUntil, t.limit.Expires(&c.state))
	c.form.write(t, c.page, c.slot, c.word, c.h, &c.state)
	t.legacy.taken(c.h)
}

// fits reports whether the claim's state can still be kept in the form of its page after the operation, which adds units.
func (c *claim) fits(op rule.Op, now rule.Micros) bool {
	cost := c.cost
	switch op {
	case rule.Take, rule.TakeUpTo:
		cost = min(cost, c.plan.limit.Capacity())
	case rule.Settle:
		cost = c.charges()
	}
	return c.form.fits(&c.state, now, cost)
}
