package pgstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The fast paths: takes of one charge each. Consecutive takes of one key with the same limit and cost are decided
// together, because the cost determines what each of them changed. If all are over windows in one part, take and
// take_many decide, otherwise take_any and take_any_many.

// entry is a run of such takes, a range of roundTrip.parts.
type entry struct{ from, to int }

const maxRun = maxCall // a cost times this must fit 63 bits

// areFast reports whether there is a fast path for all requests of a batch, and whether all are over windows in one
// part.
func areFast(batch []store.Request, parts []part) (fast, pairs bool) {
	pairs = true
	for i := range parts {
		r := &batch[parts[i].request]
		if r.Op != rule.Take || len(r.Charges) != 1 || r.Once || r.Hold && r.Charges[0].Limit.Rule().Hold > 0 {
			return false, false
		}
		if l := r.Charges[0].Limit.Rule(); !quick.IsPair(l) {
			if pairs = false; !isFast(l) {
				return false, false
			}
		}
	}
	return true, pairs
}

// planRuns sorts a batch by address and finds its runs. It reports false if a key has several, which the functions do
// not decide; the batch is then in its original order.
func (t *roundTrip) planRuns(batch []store.Request) bool {
	slices.SortFunc(t.parts, func(a, b part) int {
		return cmp.Or(strings.Compare(a.address, b.address), cmp.Compare(a.request, b.request))
	})
	for i := range t.parts {
		if i == 0 || t.parts[i].address != t.parts[i-1].address {
			t.entries = append(t.entries, entry{i, i + 1})
			continue
		}
		last := &t.entries[len(t.entries)-1]
		before, charge := &batch[t.parts[i-1].request].Charges[0], &batch[t.parts[i].request].Charges[0]
		l := charge.Limit.Rule()
		// Every refusal changes which unit another one waits for.
		apart := l.CountRefused && (l.Algorithm == rule.SlidingLog || l.Algorithm == rule.DefaultAlgorithm)
		if apart || before.Limit.ID() != charge.Limit.ID() || before.Cost != charge.Cost || last.to-last.from >= maxRun {
			slices.SortFunc(t.parts, func(a, b part) int { return cmp.Compare(a.request, b.request) })
			return false
		}
		last.to++
	}
	return true
}

// planTake encodes a single run for take.
func (t *roundTrip) planTake(s *Store, batch []store.Request) {
	e := t.entries[0]
	charge := &batch[t.parts[e.from].request].Charges[0]
	l := charge.Limit.Rule()
	t.args = append(t.args, t.parts[e.from].address, s.now(), s.commit(), bit(l.Algorithm == rule.FixedWindow), bit(l.Anchor == rule.AnchorFirst),
		bit(l.CountRefused), int64(l.Overlap), l.Quota, int64(l.Window), charge.Cost, int64(e.to-e.from))
}

// planTakes encodes several runs for take_many.
func (t *roundTrip) planTakes(s *Store, batch []store.Request) {
	for _, e := range t.entries {
		charge := &batch[t.parts[e.from].request].Charges[0]
		l := charge.Limit.Rule()
		kind := bit(l.Algorithm == rule.FixedWindow) + 2*bit(l.Anchor == rule.AnchorFirst) + 4*bit(l.CountRefused) + 8*int64(l.Overlap)
		t.addresses = append(t.addresses, t.parts[e.from].address)
		t.kinds = append(t.kinds, kind)
		t.quotas = append(t.quotas, l.Quota)
		t.windows = append(t.windows, int64(l.Window))
		t.costs = append(t.costs, charge.Cost)
		t.counts = append(t.counts, int64(e.to-e.from))
	}
	t.args = append(t.args, t.addresses, s.now(), s.commit(), t.kinds, t.quotas, t.windows, t.costs, t.counts)
}

const takeReplies = 5 // numbers per entry

// Marks at the beginning of what the fast paths return.
const (
	markFlat    = -2 // before each result its length
	markGeneral = -3 // what decide_one returns: something is held
)

// eachReply calls read for each entry and what was returned for it. Read reports whether that is valid.
func (t *roundTrip) eachReply(batch []store.Request, read func(e entry, reply []int64) bool) error {
	rest, flat := t.reply, len(t.reply) > 0 && t.reply[0] == markFlat
	width := len(rest) / len(t.entries)
	ok := flat || len(rest)%len(t.entries) == 0
	if flat {
		rest = rest[1:]
	}
	for i := 0; ok && i < len(t.entries); i++ {
		if flat {
			if ok = len(rest) > 0 && rest[0] >= 0 && rest[0] < int64(len(rest)); !ok {
				break
			}
			width, rest = int(rest[0]), rest[1:]
		}
		reply := rest[:width]
		if rest = rest[width:]; width > 0 && reply[0] == markGeneral {
			ok = t.readGeneral(batch, t.entries[i], reply[1:])
		} else {
			ok = read(t.entries[i], reply)
		}
	}
	if !ok || len(rest) > 0 {
		return fmt.Errorf("pgstore: %w", errReply)
	}
	return nil
}

// readGeneral reads what decide_one returned for a run.
func (t *roundTrip) readGeneral(batch []store.Request, e entry, reply []int64) (ok bool) {
	for i := e.from; i < e.to; i++ {
		r := &batch[t.parts[i].request]
		if r.Answers[0], reply, ok = readDecided(r, 0, reply); !ok {
			return false
		}
	}
	return len(reply) == 0
}

// readTakes derives the answers from the result of take or take_many.
func (t *roundTrip) readTakes(batch []store.Request) error {
	return t.eachReply(batch, func(e entry, reply []int64) bool {
		if len(reply) == takeReplies {
			t.readRun(batch, e, reply)
		}
		return len(reply) == takeReplies
	})
}

func (t *roundTrip) readRun(batch []store.Request, e entry, reply []int64) {
	charge := &batch[t.parts[e.from].request].Charges[0]
	l, cost := charge.Limit.Rule(), charge.Cost
	now, start, base, previous, admitted, moved := reply[0], reply[1], reply[2], reply[3], int(reply[4]>>1), reply[4]&1 != 0
	counts := t.stateCounts[:l.Parts()]
	copy(counts, []int64{0, previous})
	t.state = rule.State{Start: rule.Micros(start), Counts: counts}
	for j := range e.to - e.from {
		charged := min(j+1, admitted)
		if l.CountRefused && cost <= l.Quota {
			charged = j + 1
		}
		counts[0] = min(base+int64(charged)*cost, rule.MaxQuota)
		allowed, granted := j < admitted, int64(0)
		if allowed {
			granted = cost
		}
		a := &batch[t.parts[e.from+j].request].Answers[0]
		*a = port.Answer(l, &t.state, rule.Micros(now), cost, granted, allowed, moved, false)
		if cost > 0 || !allowed {
			moved = false // the first one has moved the state
		}
	}
}
