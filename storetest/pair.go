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
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// epoch is where clocks start: a time in 2026 at which no window begins.
const epoch = rule.Micros(1_767_323_045_678_901)

// pair is the store under test and the reference, on one clock. Both must answer every request alike.
type pair struct {
	t         testing.TB
	suite     *suite
	clock     *Clock
	store     store.Store
	reference *Reference
	namespace string
	title     string             // what is being checked, for failure messages
	latest    rule.Micros        // the latest time since the clock was last set back
	addresses map[string]subject // the subjects of all requests so far
	order     []string           // the addresses in the order of their first use, so that a seed repeats a run
	recent    []string           // the last requests, for failure messages
	refused   map[slidegate.Limit]bool
}

// subject is what a state belongs to.
type subject struct {
	limit      *store.Limit
	group, key string
}

// pair opens a store, with a namespace of its own.
func (s *suite) pair(t testing.TB) *pair {
	t.Helper()
	clock := NewClock(epoch)
	store := s.open(t, clock)
	if store == nil {
		t.Fatal("open returned no store")
	}
	return &pair{
		t: t, suite: s, clock: clock, store: store, reference: NewReference(clock), namespace: "storetest-" + rand.Text(),
		title: "scripted", latest: epoch, addresses: map[string]subject{}, refused: map[slidegate.Limit]bool{},
	}
}

// bind binds a limit, or returns nil if the store does not support it.
func (p *pair) bind(limit slidegate.Limit) *store.Limit {
	p.t.Helper()
	return p.bindIn(p.namespace, limit)
}

func (p *pair) bindIn(namespace string, limit slidegate.Limit) *store.Limit {
	p.t.Helper()
	bound, err := adapter.Bind(namespace, limit)
	if err != nil {
		p.t.Fatalf("the suite's own limit is invalid: %v", err)
	}
	if err := p.store.Check(bound); err != nil {
		if !errors.Is(err, store.ErrUnsupported) {
			p.t.Fatalf("Check rejects %v with an error that does not wrap ErrUnsupported: %v", limit, err)
		}
		if !p.refused[limit] {
			p.t.Logf("not checked: the store rejects %v: %v", limit, err)
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
		p.t.Fatalf("the suite's own limit is invalid: %v", err)
	}
	bound := store.Bind(p.namespace, name, name, normal)
	if err := p.store.Check(bound); err != nil {
		if !errors.Is(err, store.ErrUnsupported) {
			p.t.Fatalf("Check rejects %+v with an error that does not wrap ErrUnsupported: %v", normal, err)
		}
		p.t.Logf("not checked: the store rejects %+v: %v", normal, err)
		return nil
	}
	return bound
}

// bindAll binds those limits that the store accepts.
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

// both sends a request to the store and the reference, and returns the answers, which must agree.
func (p *pair) both(op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	return p.bothWith(p.store.Apply, op, group, charges...)
}

// bothAs is both for a reservation.
func (p *pair) bothAs(id rule.ID, op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	return p.bothWithAs(p.store.Apply, id, op, group, charges...)
}

// bothWith is both with apply in place of the store's Apply.
func (p *pair) bothWith(apply applyFunc, op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	return p.bothWithAs(apply, 0, op, group, charges...)
}

func (p *pair) bothWithAs(apply applyFunc, id rule.ID, op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	p.t.Helper()
	return p.bothFull(apply, store.Request{Op: op, Group: group, ID: id, Charges: charges})
}

// bothRequest is both for a request with all of its fields.
func (p *pair) bothRequest(r store.Request) []rule.Answer {
	p.t.Helper()
	return p.bothFull(p.store.Apply, r)
}

func (p *pair) bothFull(apply applyFunc, r store.Request) []rule.Answer {
	p.t.Helper()
	p.record(&r)
	got, err := decideFull(context.Background(), apply, r)
	if err != nil {
		p.fatalf("the store failed: %v", err)
	}
	want, err := decideFull(context.Background(), p.reference.Apply, r)
	if err != nil {
		p.fatalf("the reference failed: %v", err)
	}
	p.compare(got, want)
	return want
}

// single is both for a request of a single charge without a group.
func (p *pair) single(op rule.Op, limit *store.Limit, key string, cost int64) rule.Answer {
	p.t.Helper()
	return p.both(op, "", store.Charge{Limit: limit, Key: key, Cost: cost})[0]
}

// giveBack is both for giving back units charged at a given time.
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
		if got[i].Flags&rule.Inherited != 0 {
			hint = "; the key inherited counts; open the store with more capacity"
		}
		p.fatalf("answer %d of %d differs%s\n store:     %+v\n reference: %+v", i+1, len(want), hint, got[i], want[i])
	}
}

// moveTo moves the clock. If the clock goes back to before the expiry of a state that a store may have forgotten by now,
// the store may or may not still have it, so the state is first reset in both.
func (p *pair) moveTo(now rule.Micros) {
	p.t.Helper()
	p.latest = max(p.latest, p.clock.Now())
	if now < p.clock.Now() {
		for _, name := range p.order {
			s := p.addresses[name]
			if p.reference.mayReturn(s.limit, s.group, s.key, p.latest, now) {
				p.both(rule.Reset, s.group, store.Charge{Limit: s.limit, Key: s.key})
			}
		}
		p.latest = now
	}
	p.clock.Set(now)
}

func (p *pair) moveBy(length rule.Micros) {
	p.t.Helper()
	p.moveTo(p.clock.Now() + length)
}

// forgetSubjects forgets the subjects so far, which are not used again.
func (p *pair) forgetSubjects() {
	p.order, p.recent = nil, nil
	clear(p.addresses)
}

// record keeps what moveTo and fatalf need.
func (p *pair) record(r *store.Request) {
	if len(p.recent) >= keptRequests {
		p.recent = slices.Delete(p.recent, 0, 1)
	}
	p.recent = append(p.recent, fmt.Sprintf("%d: %s%s", p.clock.Now(), describe(r.Op, r.Group, r.Charges), describeID(r)))
	for _, charge := range r.Charges {
		name := address(charge.Limit.Prefix(), r.Group, charge.Key)
		if _, known := p.addresses[name]; !known {
			p.addresses[name] = subject{charge.Limit, r.Group, charge.Key}
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
	p.t.Fatalf("%s (seed %d): %s\n last requests, by clock time:\n  %s", p.title, p.suite.seed, fmt.Sprintf(format, args...), recent)
}

// describeID describes what a request does with its ID.
func describeID(r *store.Request) string {
	text := ""
	if r.Hold {
		text += ", holding"
	}
	if r.Once {
		text += ", once"
	}
	if text != "" || r.Op == rule.Renew {
		text += fmt.Sprintf(" as %x", r.ID)
	}
	return text
}

func describe(op rule.Op, group string, charges []store.Charge) string {
	var b strings.Builder
	b.WriteString(op.String())
	for _, charge := range charges {
		fmt.Fprintf(&b, " [%d of %v, key %.40q", charge.Cost, adapter.Unbind(charge.Limit), charge.Key)
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
