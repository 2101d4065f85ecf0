package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// epoch is where clocks start: a moment of 2026 that no window begins at.
const epoch = rule.Micros(1_767_323_045_678_901)

// pair is the store under test and the reference side by side, on one clock. What both are asked they must answer alike.
type pair struct {
	t         testing.TB
	suite     *suite
	clock     *Clock
	store     store.Store
	reference *Reference
	namespace string
	title     string             // what is being tried, for failures
	high      rule.Micros        // the latest moment since the clock was last set back
	addresses map[string]subject // what was asked about
	order     []string           // the addresses in the order in which they came up, so that a seed repeats a run
	recent    []string           // the last requests, for failures
	refused   map[slidegate.Limit]bool
}

// subject is what a state belongs to.
type subject struct {
	limit      *store.Limit
	group, key string
}

// pair opens a store, in a namespace that nobody else has.
func (s *suite) pair(t testing.TB) *pair {
	t.Helper()
	clock := NewClock(epoch)
	store := s.open(t, clock)
	if store == nil {
		t.Fatal("open returned no store")
	}
	return &pair{
		t: t, suite: s, clock: clock, store: store, reference: NewReference(clock), namespace: "storetest-" + rand.Text(),
		title: "scripted", high: epoch, addresses: map[string]subject{}, refused: map[slidegate.Limit]bool{},
	}
}

// bind binds a limit, or returns nil if the store says that it cannot keep it.
func (p *pair) bind(limit slidegate.Limit) *store.Limit {
	p.t.Helper()
	return p.bindIn(p.namespace, limit)
}

func (p *pair) bindIn(namespace string, limit slidegate.Limit) *store.Limit {
	p.t.Helper()
	bound, err := slidegate.Bind(namespace, limit)
	if err != nil {
		p.t.Fatalf("the suite's own limit is wrong: %v", err)
	}
	if err := p.store.Check(bound); err != nil {
		if !errors.Is(err, store.ErrUnsupported) {
			p.t.Fatalf("Check refuses %v with an error that does not wrap ErrUnsupported: %v", limit, err)
		}
		if !p.refused[limit] {
			p.t.Logf("not checked: the store refuses %v: %v", limit, err)
		}
		p.refused[limit] = true
		return nil
	}
	return bound
}

// bindRule is bind for a limit in integers.
func (p *pair) bindRule(name string, limit rule.Limit) *store.Limit {
	p.t.Helper()
	normal, err := limit.Normalize()
	if err != nil {
		p.t.Fatalf("the suite's own limit is wrong: %v", err)
	}
	bound := store.Bind(p.namespace, name, name, normal)
	if err := p.store.Check(bound); err != nil {
		if !errors.Is(err, store.ErrUnsupported) {
			p.t.Fatalf("Check refuses %+v with an error that does not wrap ErrUnsupported: %v", normal, err)
		}
		p.t.Logf("not checked: the store refuses %+v: %v", normal, err)
		return nil
	}
	return bound
}

// bindAll binds those of the limits that the store accepts.
func (p *pair) bindAll(limits ...slidegate.Limit) []*store.Limit {
	p.t.Helper()
	var bound []*store.Limit
	for _, limit := range limits {
		if b := p.bind(limit); b != nil {
			bound = append(bound, b)
		}
	}
	return bound
}

// both asks the store and the reference, and returns what they agree on.
func (p *pair) both(op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	return p.bothWith(p.store.Apply, op, group, charges...)
}

// bothAs is both for a reservation.
func (p *pair) bothAs(id rule.ID, op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	return p.bothWithAs(p.store.Apply, id, op, group, charges...)
}

// bothWith is both where the store is asked in a way of its own.
func (p *pair) bothWith(apply applyFunc, op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	return p.bothWithAs(apply, 0, op, group, charges...)
}

func (p *pair) bothWithAs(apply applyFunc, id rule.ID, op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	p.saw(op, group, charges)
	got, err := decideAs(context.Background(), apply, id, op, group, charges...)
	if err != nil {
		p.fatalf("the store failed: %v", err)
	}
	want, err := decideAs(context.Background(), p.reference.Apply, id, op, group, charges...)
	if err != nil {
		p.fatalf("the reference failed: %v", err)
	}
	p.compare(got, want)
	return want
}

// one is both for a request of a single charge without a group.
func (p *pair) one(op rule.Op, limit *store.Limit, key string, cost int64) rule.Answer {
	p.t.Helper()
	return p.both(op, "", store.Charge{Limit: limit, Key: key, Cost: cost})[0]
}

// giveBack is both for giving units of a moment back.
func (p *pair) giveBack(limit *store.Limit, key string, cost int64, at rule.Micros) rule.Answer {
	p.t.Helper()
	return p.both(rule.GiveBack, "", store.Charge{Limit: limit, Key: key, Cost: cost, At: at})[0]
}

func (p *pair) compare(got, want []rule.Answer) {
	p.t.Helper()
	for i := range want {
		g := got[i]
		g.Flags &^= rule.Inherited
		if g == want[i] {
			continue
		}
		hint := ""
		if got[i].Flags.Inherited() {
			hint = "; the store let the key inherit: open it with more room"
		}
		p.fatalf("answer %d of %d differs%s\n store:     %+v\n reference: %+v", i+1, len(want), hint, got[i], want[i])
	}
}

// moveTo moves the clock. What a store may have forgotten by now is a matter of its own once the clock goes back before
// its end, so it is reset first, in both.
func (p *pair) moveTo(now rule.Micros) {
	p.t.Helper()
	p.high = max(p.high, p.clock.Now())
	if now < p.clock.Now() {
		for _, name := range p.order {
			s := p.addresses[name]
			if end, there := p.reference.expires(s.limit, s.group, s.key); there && end <= p.high && now < end {
				p.both(rule.Reset, s.group, store.Charge{Limit: s.limit, Key: s.key})
			}
		}
		p.high = now
	}
	p.clock.Set(now)
}

func (p *pair) moveBy(length rule.Micros) {
	p.t.Helper()
	p.moveTo(p.clock.Now() + length)
}

// turnPage is for when what was asked about until now will not be asked about again.
func (p *pair) turnPage() {
	p.order, p.recent = nil, nil
	clear(p.addresses)
}

// saw keeps the books that moveTo and fatalf need.
func (p *pair) saw(op rule.Op, group string, charges []store.Charge) {
	if len(p.recent) >= keptRequests {
		p.recent = slices.Delete(p.recent, 0, 1)
	}
	p.recent = append(p.recent, fmt.Sprintf("%d: %s", p.clock.Now(), describe(op, group, charges)))
	for _, charge := range charges {
		name := address(charge.Limit.Prefix(), group, charge.Key)
		if _, known := p.addresses[name]; !known {
			p.addresses[name] = subject{charge.Limit, group, charge.Key}
			p.order = append(p.order, name)
		}
	}
}

func (p *pair) fatalf(format string, args ...any) {
	p.t.Helper()
	recent := "none"
	if len(p.recent) > 0 {
		recent = strings.Join(p.recent, "\n  ")
	}
	p.t.Fatalf("%s (seed %d): %s\n last requests, by the clock:\n  %s", p.title, p.suite.seed, fmt.Sprintf(format, args...), recent)
}

func describe(op rule.Op, group string, charges []store.Charge) string {
	var b strings.Builder
	b.WriteString(op.String())
	for _, charge := range charges {
		fmt.Fprintf(&b, " [%d of %v, key %.40q", charge.Cost, slidegate.Unbind(charge.Limit), charge.Key)
		if op == rule.GiveBack || op == rule.Settle {
			fmt.Fprintf(&b, ", at %d", charge.At)
		}
		if op == rule.Settle {
			fmt.Fprintf(&b, ", %d used", charge.Used)
		}
		b.WriteString("]")
	}
	if group != "" {
		fmt.Fprintf(&b, " in group %.40q", group)
	}
	return b.String()
}
