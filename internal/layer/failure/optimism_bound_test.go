package failure_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

const (
	inParts       = "default in parts" // the name of a limit of which a key has parts from the start, as under a larger quota
	playWindow    = 600 * time.Millisecond
	playProcesses = 3
	playKeys      = 2
)

// playLimits returns limits that keep their quota in any window, or that have another exact bound; see promises.
func playLimits(random *rand.Rand) []slidegate.Limit {
	quota := func() int64 { return 2 + random.Int64N(12) }
	return []slidegate.Limit{
		{Name: "log", Algorithm: slidegate.SlidingLog, Quota: quota(), Window: playWindow},
		{Name: "default", Quota: quota(), Window: playWindow},
		{Name: inParts, Quota: quota(), Window: playWindow},
		{Name: "whole", Algorithm: slidegate.SlidingWindow, Quota: quota(), Window: playWindow, Segments: 1 + random.IntN(6), Overlap: slidegate.OverlapWhole},
		{Name: "first", Algorithm: slidegate.SlidingWindow, Quota: quota(), Window: playWindow, Segments: 3, Overlap: slidegate.OverlapWhole, Anchor: slidegate.AnchorFirst},
		{Name: "fixed", Algorithm: slidegate.FixedWindow, Quota: quota(), Window: playWindow},
		{Name: "bucket", Algorithm: slidegate.TokenBucket, Quota: quota(), Burst: quota(), Window: playWindow},
	}
}

// limitKey is a key of a limit.
type limitKey struct {
	limit *store.Limit
	key   string
}

// admission is a number of units that were admitted at a time.
type admission struct {
	at    rule.Micros
	units int64
}

// play is a store that several processes share over unreliable connections, and a record of what was admitted.
type play struct {
	t      *testing.T
	k      int64
	limits []*store.Limit
	shared store.Store
	late   sync.WaitGroup // requests that arrive after their callers have left

	mu       sync.Mutex
	random   *rand.Rand
	admitted map[limitKey][]admission
	refused  int
}

func (p *play) draw(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(n)
}

// line is the connection of a process to the store.
type line struct {
	*play
	mu         sync.Mutex
	good       int                // how many of 10 calls are answered
	gone       bool               // the store receives nothing
	optimistic map[limitKey]int64 // units that were admitted here without the store
	sent       map[limitKey]int64 // units that were sent to the store
}

func (l *line) Traits() store.Traits {
	return store.Traits{Name: "far", MaxCharges: 64, RoundTrips: 1, ServerClock: true}
}

func (l *line) Check(limit *store.Limit) error { return l.shared.Check(limit) }

// Apply answers, or fails in one of several ways: nothing arrives and that is known, nothing arrives and that is
// unknown, the answer is lost, or the request arrives late, by up to two windows.
func (l *line) Apply(ctx context.Context, batch []store.Request) error {
	l.mu.Lock()
	good, gone := l.draw(10) < l.good, l.gone
	l.mu.Unlock()
	l.countSent(batch, 1)
	way := l.draw(4)
	switch {
	case good:
		testkit.Delay(time.Duration(l.draw(4000)) * time.Microsecond)
		defer func() { testkit.Delay(time.Duration(l.draw(4000)) * time.Microsecond) }()
		return l.shared.Apply(context.WithoutCancel(ctx), batch)
	case gone || way == 0:
		err := []error{errDown, errBroken, errOne}[l.draw(3)]
		if errors.Is(err, store.ErrUndone) {
			l.countSent(batch, -1)
		}
		return batches.FailAll(batch, err)
	case way == 1:
		_ = l.shared.Apply(context.WithoutCancel(ctx), copied(batch))
	case way == 2:
		theirs, delay := copied(batch), time.Duration(l.draw(int(2*playWindow)))
		l.late.Go(func() {
			testkit.Delay(delay)
			_ = l.shared.Apply(context.Background(), theirs)
		})
	}
	<-ctx.Done()
	return batches.FailAll(batch, fmt.Errorf("line: %w", ctx.Err()))
}

// countSent counts the units that a batch charges by force, times sign.
func (l *line) countSent(batch []store.Request, sign int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		if batch[i].Op == rule.Charge && !isProbe(batch) {
			c := &batch[i].Charges[0]
			l.sent[limitKey{c.Limit, c.Key}] += sign * c.Cost
		}
	}
}

// copied returns a deep copy of a batch.
func copied(batch []store.Request) []store.Request {
	theirs := slices.Clone(batch)
	for i := range theirs {
		theirs[i].Charges, theirs[i].Answers = slices.Clone(theirs[i].Charges), slices.Clone(theirs[i].Answers)
	}
	return theirs
}

// varyReliability changes the reliability of the connection until the end.
func (l *line) varyReliability(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		l.good, l.gone = [...]int{10, 9, 5, 1, 0}[l.draw(5)], l.draw(3) == 0
		l.mu.Unlock()
		testkit.Delay(time.Duration(l.draw(int(playWindow))))
	}
	l.mu.Lock()
	l.good = 10
	l.mu.Unlock()
}

// send requests units of one limit or several, by TakeSingle or Apply, and records what was admitted.
func (l *line) send(st *failure.Store) {
	key := fmt.Sprint("key ", l.draw(playKeys))
	cost := int64(1 + l.draw(2))
	var charges []store.Charge
	first := l.draw(len(l.limits))
	for i := range 1 + l.draw(2) {
		charges = append(charges, store.Charge{Limit: l.limits[(first+i)%len(l.limits)], Key: key, Cost: cost})
	}
	op := rule.Take
	if l.draw(4) == 0 {
		op = rule.TakeUpTo
	}
	answers := make([]rule.Answer, len(charges))
	var err error
	if len(charges) == 1 && op == rule.Take && l.draw(2) == 0 {
		answers[0], err = ways["TakeSingle"](l.t.Context(), st, charges[0])
	} else {
		err = st.Apply(l.t.Context(), []store.Request{{Op: op, Charges: charges, Answers: answers}})
	}
	if err != nil {
		l.t.Errorf("take: %v", err)
		return
	}
	l.note(charges, answers)
}

func (l *line) note(charges []store.Charge, answers []rule.Answer) {
	_, allowed := answering.Deciding(answers)
	l.play.mu.Lock()
	defer l.play.mu.Unlock()
	if !allowed {
		l.refused++
		return
	}
	for i := range charges {
		a, at := &answers[i], limitKey{charges[i].Limit, charges[i].Key}
		when := a.At
		if a.Flags&rule.FallbackOptimistic != 0 {
			l.optimistic[at] += a.Granted
			when = rule.Micros(time.Now().UnixMicro())
		}
		l.admitted[at] = append(l.admitted[at], admission{when, a.Granted})
	}
}

// run plays to the end, and returns the largest excess over a quota in a window and how often it reached its bound.
func (p *play) run() (above, reached int) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 8*playWindow)
	defer cancel()
	var lines []*line
	var layers []*failure.Store
	var all sync.WaitGroup
	for range playProcesses {
		l := &line{play: p, good: 10, optimistic: map[limitKey]int64{}, sent: map[limitKey]int64{}}
		st := newStore(p.t, l, store.FailOptimistic, failure.Options{Optimism: p.k, Timeout: 10 * time.Millisecond, ProbeEvery: 20 * time.Millisecond})
		lines, layers = append(lines, l), append(layers, st)
		all.Go(func() { l.varyReliability(ctx) })
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					testkit.Delay(time.Duration(p.draw(int(playWindow) / 20)))
					l.send(st)
				}
			})
		}
	}
	all.Wait()
	for _, st := range layers {
		if err := st.Close(p.t.Context()); err != nil {
			p.t.Errorf("closed: %v", err)
		}
	}
	p.late.Wait() // the layers add to it until they are closed
	for i, st := range layers {
		if got := st.Stats(); got.Owed != 0 {
			p.t.Errorf("units are owed after the end: got %+v, want Owed 0", got)
		}
		for at, units := range lines[i].sent {
			if admitted := lines[i].optimistic[at]; units > admitted {
				p.t.Errorf("the store received %d units of %s, but %d were admitted without it", units, at.limit.Name(), admitted)
			}
		}
	}
	for at, admitted := range p.admitted {
		slices.SortFunc(admitted, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
		limit := at.limit.Rule()
		over, allowed := mostOver(limit, admitted), playProcesses*min(p.k, limit.Capacity())
		if over > allowed {
			p.t.Errorf("%s admitted %d more than its quota of %d, want at most %d more", at.limit.Name(), over, limit.Quota, allowed)
		}
		above = max(above, int(over))
		if over == allowed {
			reached++
		}
	}
	return above, reached
}

// mostOver returns the largest excess of any interval over what a limit promises for it.
func mostOver(limit *rule.Limit, all []admission) (over int64) {
	over = -limit.Quota
	for i, first := range all {
		var units int64
		for _, a := range all[i:] {
			promised, ok := promises(limit, first.at, a.at)
			if !ok {
				break
			}
			units += a.units
			over = max(over, units-promised)
		}
	}
	return over
}

// promises returns how many units a limit admits from one time to another, inclusive, and whether it promises anything
// for that interval: one within a window, or within a fixed window. (A bucket is overdrawn by no more than a window's
// refill, so in a longer time it may forget some of what was charged beyond its burst.)
func promises(limit *rule.Limit, from, to rule.Micros) (units int64, ok bool) {
	switch limit.Algorithm {
	case rule.TokenBucket:
		refills := limit.Quota * int64(to-from)
		return limit.Burst + (refills+int64(limit.Window)-1)/int64(limit.Window), to-from < limit.Window
	case rule.FixedWindow:
		return limit.Quota, to/limit.Window == from/limit.Window
	default:
		return limit.Quota, to-from < limit.Window
	}
}

// toParts charges a unit of the keys of a limit under a larger quota, so that they have parts.
func (p *play) toParts() {
	larger := bind(p.t, slidegate.Limit{Name: inParts, Quota: rule.DefaultLog + 1, Window: playWindow})
	for i := range playKeys {
		if _, err := apply(p.t, p.shared, rule.Charge, store.Charge{Limit: larger, Key: fmt.Sprint("key ", i), Cost: 1}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// However connections fail, no window holds more than the quota plus k per process, and the store never receives more
// units than were admitted.
func TestOptimismIsBounded(t *testing.T) {
	above, reached, refused, plays := 0, 0, 0, 150
	if testing.Short() {
		plays = 30 // enough for the race detector, with which a play takes half a second
	}
	for seed := range uint64(plays) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 17))
			p := &play{t: t, k: 1 + random.Int64N(5), random: random, admitted: map[limitKey][]admission{}}
			p.shared = testkit.Must(memstore.New(memstore.Options{}))(t)
			for _, limit := range playLimits(random) {
				p.limits = append(p.limits, bind(t, limit))
			}
			p.toParts()
			a, r := p.run()
			above, reached, refused = max(above, a), reached+r, refused+p.refused
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Logf("%d plays: up to %d above the quota, %d windows at their bound", plays, above, reached)
	if above == 0 || refused == 0 {
		t.Errorf("up to %d above a quota and %d refused: the plays test nothing", above, refused)
	}
}
