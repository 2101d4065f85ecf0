package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// Calls hold units, renew, settle, cancel and die, their replies get lost, and copies of old requests arrive late. The model is a list of
// what every call took and used, and two sentences are checked after every request: what a limit counts plus what is held is at most the
// quota; and for limits that are hard caps, what was settled in any window plus what is open at its end is at most the quota. Both hold as
// long as no call uses more than it reserved, and none goes longer than its hold without a renewal.

// heldCall is what is known of a call.
type heldCall struct {
	id      rule.ID
	units   int64
	at      rule.Micros // when it was taken, by the answer
	ends    rule.Micros // unless it is renewed
	dead    bool        // its process was killed, or lost the reply: it is neither renewed nor settled while it is held
	settled bool
	used    int64
	back    int64 // what its settlement returned
	when    rule.Micros
}

// heldPlay is a play on one key.
type heldPlay struct {
	random *rand.Rand
	clock  *storetest.Clock
	store  store.Store
	limit  *store.Limit
	plain  *store.Limit // of the same address, without hold
	all    *store.Limit // of the same address, with a quota that nothing exhausts
	hard   bool         // it is a hard cap
	late   bool         // calls that were lost may be settled, so the sentences need not hold
	ids    rule.ID
	calls  []*heldCall
	others []*unitsAt // charged without a reservation
	events map[string]int
	lines  []string
}

func newHeldPlay(t testing.TB, seed uint64, open open, events map[string]int) *heldPlay {
	p := &heldPlay{random: rand.New(rand.NewPCG(seed, 9)), events: events}
	p.clock = storetest.NewClock(rule.Micros(1_800_000_000e6 + p.random.Int64N(1e12)))
	p.store = open(t, p.clock)
	limits := []rule.Limit{
		{Quota: 10}, {Quota: 150}, {Algorithm: rule.SlidingLog, Quota: 10}, {Algorithm: rule.SlidingWindow, Segments: 6, Overlap: rule.OverlapWhole, Quota: 12},
		{Algorithm: rule.SlidingWindow, Quota: 10}, {Algorithm: rule.SlidingWindow, Segments: 3, Overlap: rule.OverlapDown, Anchor: rule.AnchorFirst, Quota: 10},
		{Algorithm: rule.FixedWindow, Quota: 10}, {Algorithm: rule.TokenBucket, Quota: 10},
	}
	which := p.random.IntN(len(limits))
	l := limits[which]
	p.hard, p.late = which < 4, p.random.IntN(5) == 0
	l.Window, l.Hold = 1_200_000, []rule.Micros{400_000, 1_200_000, 5_000_000, 60_000_000}[p.random.IntN(4)]
	namespace := fmt.Sprint("holds-", rand.Uint64())
	bind := func(l rule.Limit) *store.Limit {
		l, err := l.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		return store.Bind(namespace, "", "hold", l)
	}
	p.limit = bind(l)
	l.Hold = 0
	p.plain = bind(l)
	if l.Algorithm == rule.TokenBucket {
		l.Burst = 1 << 30 // at the same rate
	} else if l.Algorithm == rule.SlidingLog {
		l.Quota = rule.MaxLogQuota
	} else {
		l.Quota = 1 << 30
	}
	p.all = bind(l)
	return p
}

func (p *heldPlay) send(r store.Request, limit *store.Limit, cost, used int64, at rule.Micros) (rule.Answer, error) {
	r.Charges = []store.Charge{{Limit: limit, Key: "key", Cost: cost, Used: used, At: at}}
	r.Answers = make([]rule.Answer, 1)
	err := p.store.Apply(context.Background(), []store.Request{r})
	if r.Op != rule.Peek {
		p.lines = append(p.lines, fmt.Sprintf("%d: %v %d of %d as %d: %+v, %v", p.clock.Now(), r.Op, used, cost, r.ID, r.Answers[0], err))
	}
	return r.Answers[0], err
}

func (p *heldPlay) open() (units int64) {
	for _, c := range p.calls {
		if c.isOpen(p.clock.Now()) {
			units += c.units
		}
	}
	return units
}

func (c *heldCall) isOpen(now rule.Micros) bool { return !c.settled && now < c.ends }

// settled returns what was used within a time before now.
func (p *heldPlay) settled(within rule.Micros) (units int64) {
	from := p.clock.Now() - within
	for _, c := range p.calls {
		if c.settled && c.when > from {
			units += c.used
		}
	}
	for _, u := range p.others {
		if u.at > from {
			units += u.units
		}
	}
	return units
}

// pick returns a call, mostly a recent one.
func (p *heldPlay) pick() *heldCall {
	n := len(p.calls)
	if p.random.IntN(4) > 0 {
		n = min(n, 6)
	}
	return p.calls[len(p.calls)-1-p.random.IntN(n)]
}

func (p *heldPlay) step() error {
	now := p.clock.Now()
	switch n := p.random.IntN(20); {
	case n < 5:
		p.clock.Advance(p.pause())
		return nil
	case n < 10 || len(p.calls) == 0:
		return p.reserve()
	case n == 10:
		n := 1 + p.random.Int64N(3)
		a, err := p.send(store.Request{Op: rule.Take}, p.plain, n, 0, 0)
		if err == nil && a.Allowed {
			p.others = append(p.others, &unitsAt{now, n})
		}
		return err
	case n < 14:
		return p.renew(p.pick())
	case n == 14:
		c := p.pick()
		if !c.isOpen(now) || c.dead {
			return nil
		}
		p.events["reserved again"]++ // because its reply was lost
		a, err := p.send(store.Request{Op: rule.Take, ID: c.id, Hold: true}, p.limit, c.units, 0, 0)
		if err == nil && (!a.Allowed || a.Granted != c.units) {
			err = fmt.Errorf("a repeated reservation that is held was refused")
		}
		c.ends = now + p.limit.Rule().Hold
		return err
	default:
		return p.settle(p.pick())
	}
}

// pause is a time after which something changes, often the end of a part, of a window or of a hold.
func (p *heldPlay) pause() rule.Micros {
	l, now := p.limit.Rule(), p.clock.Now()
	part := l.Window / rule.Micros(max(1, l.Segments))
	switch p.random.IntN(7) {
	case 0:
		return part - now%part - rule.Micros(p.random.IntN(2))
	case 1:
		return l.Window
	case 2:
		return l.Hold / 2
	case 3:
		if n := len(p.calls); n > 0 {
			return max(0, p.calls[n-1].ends-now-rule.Micros(p.random.IntN(2)))
		}
		return 1
	case 4:
		return 1
	default:
		return rule.Micros(p.random.Int64N(int64(l.Window)))
	}
}

func (p *heldPlay) reserve() error {
	p.ids++
	units := 1 + p.random.Int64N(5)
	if p.limit.Rule().Quota > 100 {
		units *= 15
	}
	a, err := p.send(store.Request{Op: rule.Take, ID: p.ids, Hold: true}, p.limit, units, 0, 0)
	if err != nil || !a.Allowed {
		p.events["refused"]++
		return err
	}
	p.events["reserved"]++
	c := &heldCall{id: p.ids, units: units, at: a.At, ends: p.clock.Now() + p.limit.Rule().Hold, dead: p.random.IntN(8) == 0}
	p.calls = append(p.calls, c)
	if c.dead {
		p.events["killed"]++
	}
	return nil
}

// renew renews a call, also one that has ended, by an old copy.
func (p *heldPlay) renew(c *heldCall) error {
	now := p.clock.Now()
	held := c.isOpen(now)
	if held && c.dead {
		return nil
	}
	a, err := p.send(store.Request{Op: rule.Renew, ID: c.id}, p.limit, c.units, 0, c.at)
	if err != nil {
		return err
	}
	p.events[map[bool]string{true: "renewed", false: "renewed what is lost"}[held]]++
	if a.Allowed != held {
		return fmt.Errorf("renewed: got held %v, want %v", a.Allowed, held)
	}
	if held {
		c.ends = now + p.limit.Rule().Hold
	}
	return nil
}

// settle settles or cancels a call, often not for the first time, with what an old copy says.
func (p *heldPlay) settle(c *heldCall) error {
	now, used := p.clock.Now(), int64(0)
	if p.random.IntN(3) > 0 {
		used = p.random.Int64N(c.units + 1)
	}
	lost := !c.settled && !c.isOpen(now)
	if lost && !p.late {
		used = 0
	}
	if c.dead && c.isOpen(now) {
		return nil
	}
	if c.settled && now > c.when+p.limit.Rule().Memory() {
		return nil // it need not be remembered
	}
	a, err := p.send(store.Request{Op: rule.Settle, ID: c.id}, p.limit, c.units, used, c.at)
	if err != nil {
		return err
	}
	if c.settled {
		p.events["settled again"]++
		if a.Flags&rule.Repeated == 0 || a.Granted != c.back {
			return fmt.Errorf("settled again: got %+v, want what the first returned, %d", a, c.back)
		}
		return nil
	}
	want := c.units - used
	if lost {
		p.events["lost and settled"]++
		want = -used
	}
	p.events["settled"]++
	if a.Granted != want || a.Flags&rule.Repeated != 0 {
		return fmt.Errorf("settled: got %+v, want %d returned", a, want)
	}
	c.settled, c.used, c.back, c.when = true, used, want, now
	return nil
}

// check checks both sentences, and that nothing is counted that was neither used nor is held.
func (p *heldPlay) check() error {
	a, err := p.send(store.Request{Op: rule.Peek}, p.all, 0, 0, 0)
	if err != nil {
		return err
	}
	l := p.limit.Rule()
	counted, open, capacity := p.all.Rule().Capacity()-a.Remaining, p.open(), l.Capacity()
	part := l.Window / rule.Micros(max(1, l.Segments))
	switch {
	case counted < open:
		return fmt.Errorf("%d units are open, and the store counts %d", open, counted)
	case counted > open+p.settled(l.Window+part) && l.Algorithm != rule.TokenBucket:
		return fmt.Errorf("the store counts %d, and %d are open and %d were used", counted, open, p.settled(l.Window+part))
	case p.late:
	case counted > capacity:
		return fmt.Errorf("what is counted and held is %d, of a quota of %d", counted, capacity)
	case p.hard && p.settled(l.Window)+open > capacity:
		return fmt.Errorf("%d were settled in a window, and %d are open at its end, of a quota of %d", p.settled(l.Window), open, capacity)
	}
	return nil
}

// end lets all holds and windows pass, and checks that everything is free.
func (p *heldPlay) end() error {
	for _, c := range p.calls {
		c.ends = min(c.ends, p.clock.Now()+p.limit.Rule().Hold)
	}
	p.clock.Advance(p.limit.Rule().Hold + 3*p.limit.Rule().Window)
	a, err := p.send(store.Request{Op: rule.Peek}, p.plain, 1, 0, 0)
	if err == nil && a.Remaining != p.plain.Rule().Capacity() && !p.late {
		err = fmt.Errorf("after all holds and windows have passed, %d of %d are left", a.Remaining, p.plain.Rule().Capacity())
	}
	return err
}

// play plays some steps, and returns what is wrong.
func (p *heldPlay) play(steps int) error {
	for range steps {
		if err := p.step(); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return p.end()
}

// holdsKept plays about so many steps.
func holdsKept(t *testing.T, steps int, open open) {
	t.Helper()
	if *playsFlag > 0 {
		steps = *playsFlag
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	events := map[string]int{}
	for i := range uint64(max(1, steps/100)) {
		p := newHeldPlay(t, seed+i, open, events)
		if err := p.play(100); err != nil {
			t.Fatalf("seed %d, %+v: %v\n  %s", seed+i, *p.limit.Rule(), err, strings.Join(p.lines[max(0, len(p.lines)-30):], "\n  "))
		}
	}
	t.Logf("from seed %d on, %d steps, both sentences violated 0 times: %v", seed, steps, events)
	for _, event := range []string{"reserved", "refused", "reserved again", "renewed", "renewed what is lost", "settled", "settled again", "lost and settled", "killed"} {
		if steps >= 5_000 && events[event] == 0 {
			t.Errorf("%s: never happened", event)
		}
	}
}

func reference(_ testing.TB, clock *storetest.Clock) store.Store {
	return storetest.NewReference(clock)
}

func TestHolds(t *testing.T) {
	t.Parallel()
	holdsKept(t, 50_000, reference)
}

func TestHoldsInMemory(t *testing.T) {
	t.Parallel()
	holdsKept(t, 50_000, memory)
}

// wrongHolds is a store that makes a mistake with holds.
type wrongHolds struct {
	store.Store
	clock *storetest.Clock
	wrong func(w *wrongHolds, r *store.Request)
	ids   rule.ID
	held  []rule.ID
	edge  rule.Micros
}

func (w *wrongHolds) Apply(ctx context.Context, batch []store.Request) error {
	for i := range batch {
		r := batch[i]
		r.Charges = slices.Clone(r.Charges)
		w.wrong(w, &r)
		if err := w.Store.Apply(ctx, []store.Request{r}); err != nil {
			return err
		}
	}
	return nil
}

// Planted bugs: the plays find each of them.
func TestHoldsBugsAreFound(t *testing.T) {
	t.Parallel()
	without := func(limit *store.Limit) *store.Limit {
		l := *limit.Rule()
		l.Hold = 0
		return store.Bind(limit.Namespace(), limit.Name(), limit.Label(), l)
	}
	for name, wrong := range map[string]func(w *wrongHolds, r *store.Request){
		"settled at the time of the reservation": func(_ *wrongHolds, r *store.Request) {
			if r.Op == rule.Take || r.Op == rule.Settle {
				r.Charges[0].Limit = without(r.Charges[0].Limit)
			}
		},
		"renewed after the settlement": func(_ *wrongHolds, r *store.Request) {
			if r.Op == rule.Renew {
				r.Op, r.Hold = rule.Take, true
			}
		},
		"a fixed window's edge drops holds": func(w *wrongHolds, r *store.Request) {
			l := r.Charges[0].Limit.Rule()
			if edge := w.clock.Now() - w.clock.Now()%l.Window; edge != w.edge && l.Algorithm == rule.FixedWindow {
				for _, id := range w.held {
					c := r.Charges[0]
					c.Used = 0
					_ = w.Store.Apply(context.Background(), []store.Request{{Op: rule.Settle, ID: id, Charges: []store.Charge{c}, Answers: make([]rule.Answer, 1)}})
				}
				w.edge, w.held = edge, nil
			}
			if r.Op == rule.Take && r.Hold {
				w.held = append(w.held, r.ID)
			}
		},
		"a hold counted twice": func(w *wrongHolds, r *store.Request) {
			if w.ids++; r.Op == rule.Take && r.Hold && slices.Contains(w.held, r.ID) {
				r.ID = 1<<40 + w.ids
			} else if r.Op == rule.Take {
				w.held = append(w.held, r.ID)
			}
		},
		"settled twice": func(w *wrongHolds, r *store.Request) {
			if w.ids++; r.Op == rule.Settle && slices.Contains(w.held, r.ID) {
				r.ID = 1<<40 + w.ids
			} else if r.Op == rule.Settle {
				w.held = append(w.held, r.ID)
			}
		},
		"never renewed": func(_ *wrongHolds, r *store.Request) {
			if r.Op == rule.Renew {
				r.Op = rule.Peek
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened := func(t testing.TB, clock *storetest.Clock) store.Store {
				return &wrongHolds{Store: storetest.NewReference(clock), clock: clock, wrong: wrong}
			}
			for seed := range uint64(200) {
				if err := newHeldPlay(t, seed, opened, map[string]int{}).play(100); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("200 plays do not find it")
		})
	}
}
