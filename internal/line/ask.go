package line

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slotPoll is how often the first in line asks for what another process may return at any time: stores tell nobody.
const slotPoll = 50 * time.Millisecond

// maxTime is how long the return of what was taken for a caller that has left may take.
const maxTime = 5 * time.Second

// question is what the first in line asks, for itself and for those behind it. Its memory is reused.
type question struct {
	batch   []*waiter
	charges []store.Charge
	answers []rule.Answer
	spare   []int64 // of each charge, what was taken for callers that have left meanwhile, and nobody else can use
	request [1]store.Request
}

// ask asks for the first in line. It unlocks the shard while the store is asked. Over a store with round trips the caller may leave before
// the answer comes.
func (q *queue) ask(ctx context.Context, w *waiter) {
	q.asking, q.again = true, false
	if q.remote {
		q.sent = time.Now()
	}
	q.gather(w)
	q.watch()
	q.shard.mu.Unlock()
	if w.request.Take != nil {
		var answers []rule.Answer
		err := guard(func() (err error) {
			answers, err = w.request.Take(ctx)
			return err
		})
		q.shard.mu.Lock()
		if err != nil && ctx.Err() != nil { // the store did not fail: the caller has gone
			q.asking, q.due, q.until, q.planned, q.free = false, time.Time{}, time.Time{}, false, false
			q.leave(w)
			return
		}
		q.answered(answers, err)
		return
	}
	if q.remote {
		go func() {
			q.askStore(context.WithoutCancel(ctx), w.request.Store, w.request.Peeks)
			q.shard.mu.Unlock()
		}()
		q.shard.mu.Lock()
		return
	}
	q.askStore(context.WithoutCancel(ctx), w.request.Store, w.request.Peeks)
}

// gather puts together the question: the first in line and, if it is known what is free, as many behind it as that is enough for. Of what
// several processes share, it takes at most a quarter at once, unless the first one needs more.
func (q *queue) gather(w *waiter) {
	a := &q.asked
	a.batch = append(a.batch[:0], w)
	a.charges = append(a.charges[:0], w.request.Charges...)
	a.answers = slices.Grow(a.answers[:0], len(a.charges))[:len(a.charges)]
	if !q.free || !w.joins() {
		return
	}
	for next := w.behind; next != nil && next.joins() && q.fits(next); next = next.behind {
		for i := range a.charges {
			a.charges[i].Cost += next.costs[i]
		}
		a.batch = append(a.batch, next)
	}
}

// joins reports whether a request can be taken together with others.
func (w *waiter) joins() bool { return w.request.Take == nil && !w.request.Peeks }

// fits reports whether what is free is enough for the question and for one more.
func (q *queue) fits(w *waiter) bool {
	for i := range q.asked.charges {
		free := q.known[i].free
		if q.remote {
			free /= 4
		}
		if q.asked.charges[i].Cost+w.costs[i] > free {
			return false
		}
	}
	return true
}

// askStore sends the question. It locks the shard, which must not be locked.
func (q *queue) askStore(ctx context.Context, on store.Store, peeks bool) {
	a := &q.asked
	group := a.batch[0].request.Group
	var err error
	if peeks {
		err = a.apply(ctx, on, group, rule.Peek)
	}
	if err == nil && (!peeks || allowed(a.answers)) {
		err = a.apply(ctx, on, group, rule.Take)
	}
	q.shard.mu.Lock()
	a.spare = a.spare[:0]
	q.answered(a.answers, err) // from here on, nobody of the batch can leave anymore
	if back := a.returnSpare(); back != nil {
		q.shard.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, maxTime)
		_ = back.apply(ctx, on, group, rule.GiveBack) // if it fails, the units stay charged until they leave the window
		cancel()
		Returned(q.id.scope, group, back.charges)
		q.shard.mu.Lock()
	}
}

func (a *question) apply(ctx context.Context, on store.Store, group string, op rule.Op) error {
	a.request[0] = store.Request{Op: op, Group: group, Charges: a.charges, Answers: a.answers}
	return guard(func() error { return on.Apply(ctx, a.request[:]) })
}

// panicked is a panic of a store. Wait passes it on to those for whom the store was asked, and the others stay in line.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprint("the store panicked: ", p.value) }

// guard calls do, and returns its panic as an error: the shard must be locked again, and the line must go on.
func guard(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value}
		}
	}()
	return do()
}

// returnSpare returns a question that gives back what nobody uses; nil if there is nothing to give back.
func (a *question) returnSpare() *question {
	if !slices.ContainsFunc(a.spare, func(cost int64) bool { return cost > 0 }) {
		return nil
	}
	back := &question{charges: slices.Clone(a.charges), answers: make([]rule.Answer, len(a.charges))}
	for i := range back.charges {
		if a.answers[i].Flags&(rule.FallbackOpen|rule.FallbackClosed) != 0 { // a failure mode took nothing
			return nil
		}
		back.charges[i].Cost, back.charges[i].At = a.spare[i], a.answers[i].At
	}
	return back
}

func allowed(answers []rule.Answer) bool {
	return !slices.ContainsFunc(answers, func(a rule.Answer) bool { return !a.Allowed })
}

// answered serves those for whom the store was asked, and decides who asks when next.
func (q *queue) answered(answers []rule.Answer, err error) {
	now := time.Now()
	batch, first := q.asked.batch, q.known == nil
	planned, until, free := q.planned && !q.until.IsZero(), q.until, q.free
	q.asking, q.planned, q.free, q.until = false, false, false, time.Time{}
	if q.remote {
		q.hurry.learn(now.Sub(q.sent))
	}
	switch {
	case err != nil:
		q.failed(batch, now, until, err)
	case allowed(answers):
		if planned {
			q.hurry.adjust(false)
		}
		q.noticeOthers(free, answers, now)
		q.learn(answers, now)
		q.serve(batch, now)
		q.plan(free, answers, now)
	default:
		q.noticeOthers(free, answers, now)
		q.learn(answers, now)
		faster := planned && !q.cameTooEarly(answers, now, until) // somebody else was
		q.refused(batch, answers, now)
		if faster {
			q.contended = now
			q.judgeAll(false)
		}
	}
	clear(q.asked.batch)
	if q.lead == nil || !q.lead.stands {
		q.choose()
	} else {
		q.lead.notify()
	}
	if err == nil {
		if q.failures = 0; first {
			q.judgeAll(true)
		}
	}
	q.removeEmpty()
}

// maxFailures is how often in a row the store may fail before everybody in line gets the error. Until then, only those get it for whom the
// store was asked.
const maxFailures = 3

// failed ends the waits for which the store failed, and asks for the others a little later.
func (q *queue) failed(batch []*waiter, now, until time.Time, err error) {
	if left := until.Sub(now); left > 0 && batch[0].stands { // it was only asked whether something was returned
		q.due, q.until = now.Add(min(left, 100*time.Millisecond)), until
		return
	}
	for _, w := range batch {
		if w.stands {
			q.end(w, err)
		}
	}
	if q.failures++; q.failures < maxFailures {
		q.due = now.Add(time.Duration(q.failures*q.failures) * 10 * time.Millisecond)
		return
	}
	for q.head != nil {
		q.end(q.head, err)
	}
}

// end ends the wait of a request for which the store was asked.
func (q *queue) end(w *waiter, err error) {
	if q.lead == w {
		q.lead = nil
	}
	q.finish(w, err)
}

// serve ends the wait of those who were admitted. What was taken for callers that have left meanwhile is for the next in line: given back,
// it would be less, since a bucket is refilled in the meantime as if it had been used.
func (q *queue) serve(batch []*waiter, now time.Time) {
	a := &q.asked
	a.spare = append(a.spare[:0], make([]int64, len(a.charges))...)
	for _, w := range batch {
		if w.stands {
			q.admit(w, now)
			continue
		}
		for i, cost := range w.costs {
			a.spare[i] += cost
		}
	}
	for next := q.head; next != nil && a.isEnough(next); next = q.head {
		for i, cost := range next.costs {
			a.spare[i] -= cost
		}
		q.admit(next, now)
	}
	q.lead = nil
}

// isEnough reports whether what is spare admits a request.
func (a *question) isEnough(w *waiter) bool {
	if !w.joins() {
		return false
	}
	some := false
	for i, cost := range w.costs {
		if cost > a.spare[i] {
			return false
		}
		some = some || cost > 0
	}
	return some
}

func (q *queue) admit(w *waiter, now time.Time) {
	q.pace.add(now, q.window.Duration(), w.costs[0])
	q.end(w, nil)
}

// noticeOthers notices that another process has taken some of what the last answer left.
func (q *queue) noticeOthers(free bool, answers []rule.Answer, now time.Time) {
	if !q.remote || !free {
		return
	}
	for i := range answers {
		if answers[i].Remaining+answers[i].Granted < q.known[i].free {
			q.contended = now
		}
	}
}

// isContended reports whether other processes wait for the same units.
func (q *queue) isContended(now time.Time) bool {
	return q.remote && now.Sub(q.contended) < min(2*q.window.Duration(), 10*time.Second)
}

// longestYield is how long a process that was served lets others go first, at most.
const longestYield = 2 * time.Millisecond

// yield is that time: not longer than it takes until another unit is free, since a request that must be asked for alone takes only one.
func (q *queue) yield() time.Duration {
	d := longestYield
	for i := range q.asked.charges {
		if l := q.asked.charges[i].Limit.Rule(); l.Algorithm != rule.InFlight {
			d = min(d, l.Window.Duration()/time.Duration(l.Quota))
		}
	}
	return d
}

// plan decides, after an admission, when the next request may be admitted. Asked is whether this process has just taken a quarter of what was
// free.
func (q *queue) plan(asked bool, answers []rule.Answer, now time.Time) {
	q.due, q.free = now, true
	if asked && q.isContended(now) {
		q.due = now.Add(q.yield())
	}
	q.choose()
	if q.lead == nil {
		return
	}
	var after time.Duration
	for i := range answers {
		a := &answers[i]
		if a.Remaining > 0 && a.Remaining < q.lead.costs[i] || a.Remaining == 0 && q.lead.costs[i] > 1 {
			return // only the store knows
		}
		if a.Remaining == 0 && q.lead.costs[i] == 1 {
			after = max(after, a.NextAfter.Duration())
		}
	}
	if after > 0 && !q.again {
		q.sleep(answers, now, after, q.isContended(now))
	}
}

// refused decides, after a refusal, who asks again when.
func (q *queue) refused(batch []*waiter, answers []rule.Answer, now time.Time) {
	w := batch[0]
	index, _ := answering.Deciding(answers)
	after := answers[index].RetryAfter
	switch {
	case len(batch) > 1: // somebody else took what was free; ask for the first one alone
		q.due = now
	case !w.stands: // it has left
		q.lead, q.due = nil, now
	case after == rule.Never && answers[index].Flags&rule.HoldsFull == 0:
		q.end(w, ErrNever)
		q.due = now
	case q.again:
		q.due = now
	case w.isLate(now, after.Duration()) && !mayComeEarly(w.request.Charges, answers):
		q.end(w, &Late{After: after.Duration(), Place: 1})
		q.due = now
	default:
		q.sleep(answers, now, after.Duration(), false)
	}
}

// isLate reports whether a wait would last until the deadline or longer.
func (w *waiter) isLate(now time.Time, after time.Duration) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(now) <= after
}

// sleep plans the next question.
func (q *queue) sleep(answers []rule.Answer, now time.Time, after time.Duration, yields bool) {
	q.free = false
	if after <= 0 { // a failure mode refuses without a time
		after = slotPoll
	}
	if yields { // this process was served, so others go first if they ask at the same moment
		after += min(after/16, q.yield())
	}
	q.planned = true
	if q.remote {
		most := max(time.Second, q.window.Duration()/16) // in which a reset by another process is seen
		if mayComeEarly(q.asked.charges, answers) {
			most = slotPoll
		} else {
			q.until = now.Add(after)
		}
		if after > most {
			after, q.planned = most, false
		}
	}
	if q.remote {
		after -= q.hurry.next()
	}
	q.due = now.Add(after)
}

// mayComeEarly reports whether a refusal may end before the time that it names, because slots or held units are returned.
func mayComeEarly(charges []store.Charge, answers []rule.Answer) bool {
	for i := range answers {
		if isEarly(charges[i].Limit, &answers[i]) {
			return true
		}
	}
	return false
}

func isEarly(limit *store.Limit, a *rule.Answer) bool {
	return limit.Rule().Algorithm == rule.InFlight && (!a.Allowed || a.Remaining == 0) || a.Flags&(rule.Held|rule.HoldsFull) != 0
}
