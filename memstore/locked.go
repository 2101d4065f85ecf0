package memstore

import (
	"cmp"
	"slices"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// job is a request that is decided under the locks of all the pages it touches: several charges, a key without a slot, or
// anything but a take. Its memory is reused.
type job struct {
	store  *Store
	op     rule.Op
	id     rule.ID
	hold   bool        // see store.Request
	once   bool        // the same
	memory rule.Micros // how long the ID must be remembered, and how many IDs of the address; 0 if it need not be
	most   int64
	swept  bool // holds that have ended have been released

	bytes    []byte // memory for the record of what it changes
	recorded bool   // it has been recorded

	inspected *rule.State // is to be set to the state of the only claim, instead of deciding; usually nil

	claims []claim
	items  []rule.Item
	locks  []*page
	answer [1]rule.Answer
	now    rule.Micros // the time that decides, which fixed returns
	fixed  clock

	settling settling  // how the ID is remembered
	memo     rule.Memo // what is known of it already
}

// obstacle is why a job cannot be decided yet.
type obstacle int

const (
	ready          obstacle = iota
	stale                   // a page was replaced since it was looked up
	needSplit               // a new key has no slot in its page, which can be split
	needSecondForm          // a state may no longer fit its form
	full                    // a new key has no slot, and RefuseWhenFull is set
	needHeld                // units of a key are to be held, and its page is not marked
	needSweep               // there is no memory to hold more units
)

func newJobMemory() *job {
	j := new(job)
	j.fixed.now = func() rule.Micros { return j.now }
	return j
}

func (s *Store) newJob(op rule.Op, n int) *job {
	j := s.work.Get().(*job)
	j.store, j.op, j.id, j.hold, j.once, j.memory, j.swept, j.recorded, j.inspected = s, op, 0, false, false, 0, false, false, nil
	j.claims = slices.Grow(j.claims[:0], n)[:n]
	j.items = slices.Grow(j.items[:0], n)[:n]
	return j
}

// end returns the job to the pool, without references that would keep memory alive.
func (j *job) end() {
	for i := range j.claims {
		j.claims[i] = claim{counts: j.claims[i].counts[:0], holds: j.claims[i].holds[:0], state: rule.State{Log: j.claims[i].state.Log, Slots: j.claims[i].state.Slots[:0]}}
	}
	clear(j.items)
	clear(j.locks)
	j.settling = settling{}
	j.store.work.Put(j)
}

// takeOneLocked is TakeSingle for uncommon cases, such as a new key.
func (s *Store) takeOneLocked(p *plan, h uint64, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	j := s.newJob(rule.Take, 1)
	defer j.end()
	c := &j.claims[0]
	c.plan, c.h, c.cost = p, h, cost
	err = j.decideKept(j.answer[:])
	a := &j.answer[0]
	return a.Allowed, a.Flags, a.Remaining, answering.After(a), a.ResetAfter, a.At, err
}

func (s *Store) applyLocked(r *store.Request) error {
	j := s.newJob(r.Op, len(r.Charges))
	defer j.end()
	j.id, j.hold, j.once = r.ID, r.Hold, r.Once
	j.memory, j.most = r.Memory()
	for i := range r.Charges {
		charge, c := &r.Charges[i], &j.claims[i]
		p, err := s.planOf(charge.Limit)
		if err != nil {
			return err
		}
		c.plan, c.h, c.cost, c.used, c.at = p, p.hash(r.Group, charge.Key), charge.Cost, charge.Used, charge.At
	}
	return j.decideKept(r.Answers)
}

// maxReplans is how often a request looks up its tables again. Otherwise a request whose limits do not fit into MaxLimits
// together would never end: each table that it looks up would replace another of its tables that is still empty.
const maxReplans = 16

// decide repeats until the job is decided.
func (j *job) decide(answers []rule.Answer) error {
	for replans := 0; ; {
		what, c := j.attempt(answers)
		switch what {
		case ready:
			j.trim()
			return nil
		case stale:
			again, err := j.replan()
			if err != nil {
				return err
			}
			if again { // not counting split pages, which are always retried
				replans++
			}
			if replans > maxReplans {
				return tooManyLimits(j.store.opts.MaxLimits)
			}
		case full:
			return ErrFull
		default:
			j.overcome(what, c)
		}
	}
}

// overcome does what a claim needs before the job can be decided.
func (j *job) overcome(what obstacle, c *claim) {
	switch t := c.plan.table; what {
	case needSplit:
		c.crowded = !t.reservePage() || !t.split(c.page, c.h)
	case needSecondForm:
		t.toSecondForm(c.page, c.h)
	case needHeld:
		t.toHeld(c.page, c.h)
	case needSweep:
		j.store.sweepHolds()
		j.swept = true
	}
}

// attempt decides the job, or returns the claim that prevents that. If it panics, because a clock of the caller does or because
// an invariant is broken, it changes nothing more and leaves nothing locked.
func (j *job) attempt(answers []rule.Answer) (what obstacle, in *claim) {
	j.lock()
	defer j.unlock()
	what, in, now := j.open()
	if what == ready {
		j.carryOut(now, answers)
		j.record(now)
		if j.memo.Changed { // a checkpoint that finds it remembered has it, so what it changed must be recorded before
			j.store.settlements.remember(&j.settling, now, j.memo.Record)
		}
	}
	j.close(what == ready, answers)
	return what, in
}

// trim brings the store back under its bound, if the job's states exceeded it.
func (j *job) trim() {
	if j.store.used.Load() <= j.store.capacity {
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
	if j.inspected != nil {
		j.inspect(now)
		return
	}
	if j.canTakeLines() && j.takeLines(now, answers) {
		return
	}
	for i := range j.claims {
		j.claims[i].loadState()
	}
	switch {
	case j.hold && !j.memo.Known && !j.hasMemoryToHold():
		j.refuseHolds(now, answers)
		return
	case j.op != rule.Settle && j.memory == 0:
		rule.Decide(j.op, j.items, now, answers)
		return
	}
	rule.DecideOnce(j.op, j.once, j.items, &j.memo, now, answers)
}

// replan looks up the tables of claims again if theirs were dropped, and reports whether there were any.
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

// lock finds the pages of all claims and locks them, in the common order.
func (j *job) lock() {
	j.locks = j.locks[:0]
	for i := range j.claims {
		c := &j.claims[i]
		c.page, c.slot, c.closed = c.plan.table.page(c.h), -1, false
		c.form = c.plan.table.form(c.page)
		j.locks = append(j.locks, c.page)
	}
	slices.SortFunc(j.locks, func(a, b *page) int { return cmp.Compare(a.order, b.order) })
	j.locks = slices.Compact(j.locks)
	for _, g := range j.locks {
		g.mu.Lock()
	}
}

// open loads the state of every claim and claims its slot. It reads the clock once the existing keys are claimed: only then
// can no other request decide about them, nor about new keys, which requires the lock. It returns the first claim that
// prevents the decision.
func (j *job) open() (what obstacle, in *claim, now rule.Micros) {
	for _, g := range j.locks {
		if g.dead {
			return stale, nil, 0
		}
	}
	// Existing keys come first, so that no other claim takes their slots as expired ones.
	for i := range j.claims {
		c := &j.claims[i]
		c.find(j.claims[:i])
		j.items[i] = rule.Item{Limit: c.plan.limit, State: &c.state, Cost: c.cost, Used: c.used, At: c.at, ID: j.id, Hold: j.hold}
	}
	now = j.store.clock.read()
	j.settling = j.settlingOf(now)
	j.store.settlements.recall(&j.settling, now, &j.memo)
	for i := range j.claims {
		if c := &j.claims[i]; c.slot < 0 {
			if what := c.open(j.op, j.needsSlot(c), now); what != ready {
				return what, c, 0
			}
		}
	}
	if j.hold && !j.memo.Known {
		if what, c := j.openHolds(); what != ready {
			return what, c, 0
		}
	}
	for i := range j.claims {
		switch c := &j.claims[i]; {
		case c.slot < 0 || j.op == rule.Peek:
		case !c.fits(j, now):
			return needSecondForm, c, 0
		case j.grows() && c.plan.table.isOverfull():
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

// needsSlot reports whether the operation may write a state for a key without a slot, or must know its initial state.
// Without a slot there is nothing to give back to, to renew or to forget.
func (j *job) needsSlot(c *claim) bool {
	switch j.op {
	case rule.GiveBack, rule.Renew, rule.Reset:
		return false
	case rule.Settle:
		return j.charges(c) > 0 && !j.memo.Settled() && !j.memo.Full
	default:
		return true
	}
}

// charges returns how many units a settlement charges to the claim's key, at most.
func (j *job) charges(c *claim) int64 {
	switch limit := c.plan.limit; {
	case limit.Algorithm == rule.InFlight:
		return 0
	case limit.Hold > 0 || j.once: // all of them if they were held, or if the call that reserved them is not known
		return c.used
	}
	return max(0, c.used-c.cost)
}

// close stores what changed, if the job was decided, and releases all other slots.
func (j *job) close(decided bool, answers []rule.Answer) {
	for i := range j.claims {
		c := &j.claims[i]
		if decided && c.inherited && j.inspected == nil {
			c.countRecalled(&answers[i])
		}
		switch {
		case c.slot < 0:
			if decided && j.items[i].Changed {
				c.putHolds()
			}
		case c.copied:
			c.putLine()
		case decided && (j.items[i].Changed || j.wouldHide(c)):
			c.put()
		default:
			c.form.release(c.page, c.slot, c.word)
		}
		c.closed = true
	}
}

// unlock unlocks the pages. It first releases the slots that close did not reach.
func (j *job) unlock() {
	for i := range j.claims {
		if c := &j.claims[i]; c.slot >= 0 && !c.closed {
			c.form.release(c.page, c.slot, c.word)
		}
	}
	for _, g := range j.locks {
		g.mu.Unlock()
	}
}

// wouldHide reports whether a slot that was never used must not be released as unused: a new key of the same request may
// have been placed behind it, where a search would not find it. The claim's own key is then stored in it with its initial
// state.
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
