package rule

import (
	"slices"
	"testing"
)

// Durations used in scripts.
const (
	micro  = Micros(1)
	milli  = 1_000 * micro
	second = 1_000 * milli
	minute = 60 * second
)

// step is one line of a script: the time of a request, the request, and the expected answer.
type step struct {
	set  func(*Limit) // changes the limit before the request; its shape must stay the same
	at   Micros
	op   Op // Take by default
	cost int64
	used int64  // Settle only
	back Micros // GiveBack and Settle only: the time to take back from
	id   ID
	hold bool  // Take only: hold the units
	once bool  // Take: the call counts once; Settle: it settles the call of its id
	memo *Memo // Settle, and once: what the store remembers; nothing if nil
	want want
}

// want is the expected answer of a step. Fields that are not set are not compared, except that the flags must be exactly
// those that are set, and that the units granted follow from the decision if there is only one possible number.
type want struct {
	allowed                              bool
	remaining                            int64
	flags                                Flags
	grantedIs                            *int64
	retryIs, nextIs, resetIs, decidingIs *Micros
}

func allowed(remaining int64) want { return want{allowed: true, remaining: remaining} }
func refused(remaining int64) want { return want{remaining: remaining} }

func (w want) granted(n int64) want   { w.grantedIs = &n; return w }
func (w want) retry(d Micros) want    { w.retryIs = &d; return w }
func (w want) next(d Micros) want     { w.nextIs = &d; return w }
func (w want) reset(d Micros) want    { w.resetIs = &d; return w }
func (w want) deciding(m Micros) want { w.decidingIs = &m; return w }
func (w want) moved() want            { w.flags |= ClockMoved; return w }
func (w want) repeated() want         { w.flags |= Repeated; return w }
func (w want) unsettled() want        { w.flags |= Unsettled; return w }
func (w want) held() want             { w.flags |= Held; return w }
func (w want) flagged(f Flags) want   { w.flags |= f; return w }

// play runs a script against one key, from a state never seen. In addition to what the script expects, every answer must
// keep the invariants of all answers: its times are exact, and a state that was not changed is the same as before.
func play(t *testing.T, l Limit, script []step) {
	t.Helper()
	playFrom(t, l, State{}, script)
}

// playFrom is play from an existing state.
func playFrom(t *testing.T, l Limit, s State, script []step) {
	t.Helper()
	l = normal(t, l)
	for i, st := range script {
		if st.set != nil {
			st.set(&l)
			l = normal(t, l)
		}
		before := s.Clone()
		a, changed, cost := decideStep(t, &l, &s, st)
		if !changed && !sameState(&before, &s) {
			t.Fatalf("step %d: reported as unchanged, but the state went from %+v to %+v", i, before, s)
		}
		if difference := st.want.compare(st, &a); difference != "" {
			t.Fatalf("step %d, at %dus, op %d, cost %d: %s\nanswer: %+v", i, st.at, st.op, st.cost, difference, a)
		}
		checkAnswer(t, &l, &a)
		checkTimes(t, &l, &s, st, cost, &a)
	}
}

// decideStep decides one step in every available way, checks that all agree, and returns the answer and the cost that it is for,
// which can be less than st.cost for TakeUpTo.
func decideStep(t tb, l *Limit, s *State, st step) (a Answer, changed bool, cost int64) {
	t.Helper()
	if st.op == Take && st.id == 0 && st.memo == nil {
		one := s.Clone()
		oneAnswer, oneChanged := l.TakeOne(&one, st.at, st.cost)
		defer func() {
			if a != oneAnswer || changed != oneChanged {
				t.Fatalf("taking %d at %d: items answer %+v, %v; TakeOne %+v, %v; want the same", st.cost, st.at, a, changed, oneAnswer, oneChanged)
			}
			if !sameState(s, &one) {
				t.Fatalf("taking %d at %d: got the states %+v, %+v, want the same", st.cost, st.at, *s, one)
			}
		}()
	}
	items := []Item{{Limit: l, State: s, Cost: st.cost, Used: st.used, At: st.back, ID: st.id, Hold: st.hold}}
	answers := make([]Answer, 1)
	if st.memo != nil {
		DecideOnce(st.op, st.once, items, st.memo, st.at, answers)
	} else {
		Decide(st.op, items, st.at, answers)
	}
	return answers[0], items[0].Changed, items[0].Cost
}

func (w want) compare(st step, a *Answer) string {
	granted := w.grantedIs
	if granted == nil && st.op != TakeUpTo && st.op != GiveBack && st.op != Settle && st.op != Renew {
		var n int64
		if w.allowed && (st.op == Take || st.op == Charge) {
			n = st.cost
		}
		granted = &n
	}
	switch {
	case a.Allowed != w.allowed:
		return "the decision is wrong"
	case a.Remaining != w.remaining:
		return sprint("remaining", a.Remaining, w.remaining)
	case a.Flags != w.flags:
		return sprint("flags", int64(a.Flags), int64(w.flags))
	case granted != nil && a.Granted != *granted:
		return sprint("granted", a.Granted, *granted)
	case w.retryIs != nil && a.RetryAfter != *w.retryIs:
		return sprint("retry after", a.RetryAfter, *w.retryIs)
	case w.nextIs != nil && a.NextAfter != *w.nextIs:
		return sprint("next after", a.NextAfter, *w.nextIs)
	case w.resetIs != nil && a.ResetAfter != *w.resetIs:
		return sprint("reset after", a.ResetAfter, *w.resetIs)
	case w.decidingIs != nil && a.At != *w.decidingIs:
		return sprint("at", a.At, *w.decidingIs)
	}
	return ""
}

func sameState(a, b *State) bool {
	return a.Start == b.Start && a.Until == b.Until && a.Missing == b.Missing && a.Rest == b.Rest &&
		slices.Equal(a.Counts, b.Counts) && slices.Equal(a.Slots, b.Slots) && slices.Equal(a.Holds, b.Holds) && slices.Equal(a.Log.times(), b.Log.times())
}
