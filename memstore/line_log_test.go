package memstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// bytesTaken is the memory that a slab has, at most limit.
type bytesTaken struct{ now, limit atomic.Int64 }

func (b *bytesTaken) take(n int64, must bool) bool {
	if b.now.Add(n) > b.limit.Load() && !must {
		b.now.Add(-n)
		return false
	}
	return true
}

func (b *bytesTaken) give(n int64) { b.now.Add(-n) }

func unlimitedSlab() (*slab, *bytesTaken) {
	b := new(bytesTaken)
	b.limit.Store(math.MaxInt64)
	return newSlab(b.take, b.give), b
}

// linesInUse returns how many lines of a slab are not free.
func linesInUse(s *slab) (n int) {
	for i := range s.shards {
		g := &s.shards[i]
		for page := range g.notes {
			if pages := g.pages.Load(); (*pages)[page].Load() != nil {
				for line := range slabPageLines {
					n += 1 - int(g.notes[page].free>>line&1)
				}
			}
		}
	}
	return n
}

const testStart = rule.Micros(1_767_225_600_000_000)

// slowly decides as a store does when take leaves a request to it.
func (f *logForm) slowly(t *testing.T, l *line, decide func(s *rule.State) (changed bool)) {
	t.Helper()
	control, ok := l.acquire()
	if !ok {
		t.Fatal("the slot has moved")
	}
	var s rule.State
	f.load(l, control, &s)
	if !decide(&s) {
		l.abandon(control)
		return
	}
	next, _ := f.store(l, control, &s)
	l.release(next)
}

// checkLog checks the invariants of a slot that is not busy.
func checkLog(t *testing.T, f *logForm, l *line, want *rule.State) {
	t.Helper()
	control := l[controlWord].Load()
	u := logFields(control)
	var got rule.State
	f.load(l, control, &got)
	if a, b := timesOf(&got.Log), timesOf(&want.Log); !slices.Equal(a, b) {
		t.Fatalf("%x: the slot has %v, want %v", u, a, b)
	}
	size := f.plain
	lines := 0
	if u.hasChain() {
		size = f.chained
		lines = f.linesOf(u.offset() + u.total() - u.front() - u.back())
		if u.front() == 0 || u.back() == 0 || u.offset() >= f.perLine {
			t.Fatalf("%x: front or back is empty", u)
		}
	} else if u.back() != 0 {
		t.Fatalf("%x: a back without a chain", u)
	}
	if u.front()+u.back() > size || u.start() >= size {
		t.Fatalf("%x: outside a ring of %d", u, size)
	}
	if n := linesInUse(f.slab); n != lines {
		t.Fatalf("%x: %d lines in use, want %d", u, n, lines)
	}
	checkNoLine(t)
}

// checkNoLine fails if something was written to noLine.
func checkNoLine(t *testing.T) {
	t.Helper()
	for i := range noLine {
		if noLine[i].Load() != 0 {
			t.Fatal("something was written to noLine")
		}
	}
}

var logWindows = []rule.Micros{rule.Micros(1_000), 1_000_000, math.MaxUint32 - 1, math.MaxUint32, 3 << 31, 86_400_000_000, rule.MaxWindow}

// Every answer and every state equals the rule's for the same requests, whatever they cost and however clock and quota
// change.
func TestLogLineDecidesAsTheRule(t *testing.T) {
	Alone(t)
	for _, window := range logWindows {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			for seed := range uint64(60) {
				playLog(t, window, seed)
			}
		})
	}
}

func playLog(t *testing.T, window rule.Micros, seed uint64) {
	random := rand.New(rand.NewPCG(seed, uint64(window)))
	memory, taken := unlimitedSlab()
	f := newLogForm(memory, window)
	now := testStart
	clock := &clock{now: func() rule.Micros { return now }}
	quotas := []int64{1, 3, 10, 12, 20, 40, 100, 300}
	limit := &rule.Limit{Algorithm: rule.SlidingLog, Quota: quotas[random.IntN(len(quotas))], Window: window}
	changing, refused := random.IntN(3) == 0, random.IntN(3) == 0
	step := 1 + int64(window)/int64([]int{1, 5, 50, 500}[random.IntN(4)])
	var l line
	l[hashWord].Store(7)
	var state rule.State
	took, slow := 0, 0
	for i := range 600 {
		if changing && random.IntN(20) == 0 {
			limit.Quota = quotas[random.IntN(len(quotas))]
		}
		limit.CountRefused = refused && random.IntN(2) == 0
		switch random.IntN(60) {
		case 0:
			now = min(rule.MaxNow, now+2*window)
		case 1:
			now = max(0, now-rule.Micros(random.Int64N(int64(window)*3/2))/2)
		case 2:
			now = max(0, now-2*window)
		case 3: // a pause, in which nearly everything expires
			now = min(rule.MaxNow, now+window-rule.Micros(random.Int64N(step)))
		default:
			now = min(rule.MaxNow, now+rule.Micros(random.Int64N(step)))
		}
		cost := int64(1)
		if random.IntN(4) == 0 {
			cost = random.Int64N(limit.Quota + 2)
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("window %d seed %d step %d quota %d cost %d now %d: "+format,
				append([]any{window, seed, i, limit.Quota, cost, now}, args...)...)
		}
		if random.IntN(100) == 0 { // operations other than take
			op := []rule.Op{rule.Charge, rule.GiveBack, rule.Reset}[random.IntN(3)]
			decide := func(s *rule.State) bool {
				items := []rule.Item{{Limit: limit, State: s, Cost: cost, At: rule.Oldest}}
				rule.Decide(op, items, now, make([]rule.Answer, 1))
				return items[0].Changed
			}
			decide(&state)
			f.slowly(t, &l, decide)
			checkLog(t, f, &l, &state)
			continue
		}
		want, _ := limit.TakeOne(&state, now, cost)
		outcome, remaining, after, resetAfter, at := f.take(&l, 7, limit, clock, cost, nil)
		took++
		if outcome == quick.Undecided {
			slow++
			if cost <= limit.Quota && want.Flags == 0 {
				fail("left to the slow path")
			}
			f.slowly(t, &l, func(s *rule.State) bool {
				a, changed := limit.TakeOne(s, now, cost)
				if a != want {
					fail("slow path: got %+v, want %+v", a, want)
				}
				return changed
			})
		} else if (outcome == quick.Admitted) != want.Allowed || remaining != want.Remaining || after != answering.After(&want) ||
			resetAfter != want.ResetAfter || at != want.At {
			fail("%d remaining %d after %d reset %d at %d, want %+v", outcome, remaining, after, resetAfter, at, want)
		}
		checkLog(t, f, &l, &state)
		if e := f.expires(&l, l[controlWord].Load()); e != limit.Expires(&state) {
			fail("expires at %d, want %d", e, limit.Expires(&state))
		}
	}
	l[controlWord].Store(f.clear(&l, l[controlWord].Load()))
	checkLog(t, f, &l, &rule.State{})
	memory.trim()
	if n := taken.now.Load(); n != 0 {
		t.Fatalf("%d bytes were not released", n)
	}
}

// Without memory for another line nothing changes, and the request is left to the slow path, which takes the memory it
// needs.
func TestLogLineWithoutMemory(t *testing.T) {
	for _, window := range []rule.Micros{60_000_000, rule.MaxWindow} {
		memory, taken := unlimitedSlab()
		f := newLogForm(memory, window)
		now := testStart
		clock := &clock{now: func() rule.Micros { return now }}
		limit := &rule.Limit{Algorithm: rule.SlidingLog, Quota: 5000, Window: window}
		var l line
		l[hashWord].Store(7)
		var state rule.State
		for range 70 {
			now++
			limit.TakeOne(&state, now, 1)
			if outcome, _, _, _, _ := f.take(&l, 7, limit, clock, 1, nil); outcome != quick.Admitted {
				t.Fatal("not admitted with memory")
			}
		}
		taken.limit.Store(0)
		if outcome, _, _, _, _ := f.take(&l, 7, limit, clock, 4900, nil); outcome != quick.Undecided {
			t.Fatal("charged without memory")
		}
		checkLog(t, f, &l, &state)
		more := state.Clone()
		limit.TakeOne(&more, now, 4900)
		f.slowly(t, &l, func(s *rule.State) bool { limit.TakeOne(s, now, 4900); return true })
		checkLog(t, f, &l, &more)
	}
}

// A change of the slot between its reading and the decision is detected, whatever is decided: the clock is read in between,
// and here another request arrives then.
func TestLogLineDetectsConcurrentChanges(t *testing.T) {
	const window = rule.Micros(1_000_000)
	for _, c := range []struct {
		name         string
		used, cost   int64
		concurrently func(s *rule.State, limit *rule.Limit)
		outcome      quick.Outcome
		remaining    int64
	}{
		{"the last unit is taken", 19, 1, func(s *rule.State, limit *rule.Limit) { limit.TakeOne(s, testStart, 1) }, quick.Refused, 0},
		{"a unit is taken", 12, 1, func(s *rule.State, limit *rule.Limit) { limit.TakeOne(s, testStart, 1) }, quick.Admitted, 6},
		{"a unit is taken before a peek", 5, 0, func(s *rule.State, limit *rule.Limit) { limit.TakeOne(s, testStart, 1) }, quick.Admitted, 14},
		{"all are returned", 20, 1, func(s *rule.State, _ *rule.Limit) { clearState(s) }, quick.Admitted, 19},
		{"all are returned before a refusal", 20, 20, func(s *rule.State, limit *rule.Limit) { clearState(s); limit.TakeOne(s, testStart, 1) }, quick.Refused, 19},
	} {
		t.Run(c.name, func(t *testing.T) {
			memory, _ := unlimitedSlab()
			f := newLogForm(memory, window)
			limit := &rule.Limit{Algorithm: rule.SlidingLog, Quota: 20, Window: window}
			var l line
			l[hashWord].Store(7)
			f.slowly(t, &l, func(s *rule.State) bool { limit.TakeOne(s, testStart, c.used); return true })
			read := 0
			clock := &clock{now: func() rule.Micros {
				if read++; read == 1 {
					f.slowly(t, &l, func(s *rule.State) bool { c.concurrently(s, limit); return true })
				}
				return testStart
			}}
			outcome, remaining, _, _, _ := f.take(&l, 7, limit, clock, c.cost, nil)
			if outcome != c.outcome || remaining != c.remaining {
				t.Fatalf("outcome %d with %d remaining, want %d with %d", outcome, remaining, c.outcome, c.remaining)
			}
		})
	}
}

// A slot that has moved, or now belongs to another key, is not decided about.
func TestLogLineOfAnotherKey(t *testing.T) {
	memory, _ := unlimitedSlab()
	f := newLogForm(memory, 1_000_000)
	limit := &rule.Limit{Algorithm: rule.SlidingLog, Quota: 20, Window: 1_000_000}
	clock := &clock{now: func() rule.Micros { return testStart }}
	var l line
	l[hashWord].Store(8)
	if outcome, _, _, _, _ := f.take(&l, 7, limit, clock, 1, nil); outcome != quick.Undecided {
		t.Fatal("decided about another key's slot")
	}
	l[controlWord].Store(moved)
	if outcome, _, _, _, _ := f.take(&l, 8, limit, clock, 1, nil); outcome != quick.Undecided {
		t.Fatal("decided about a slot that has moved")
	}
}

// The weight is what is used, or slightly more.
func TestLogLineWeighs(t *testing.T) {
	memory, _ := unlimitedSlab()
	f := newLogForm(memory, 1000)
	var l line
	var s rule.State
	s.Log.Restart(3, 1000)
	for _, at := range []rule.Micros{testStart, testStart + 1, testStart + 900} {
		s.Log.Append(at)
	}
	control, _ := f.store(&l, 0, &s)
	for now, want := range map[rule.Micros]int64{testStart + 900: 3, testStart + 1000: 2, testStart + 1001: 1, testStart + 1900: 0} {
		if w := f.weight(&l, control, now); w != want {
			t.Errorf("at %d: a weight of %d, want %d", now-testStart, w, want)
		}
	}
	if w := f.weight(&l, f.clear(&l, control), testStart); w != 0 {
		t.Errorf("an empty log weighs %d, want 0", w)
	}
}

// For many goroutines that share a few keys, no more than the quota is admitted in any window, and their answers are
// consistent: in the end, the slot contains what was admitted.
func TestLogLinesConcurrently(t *testing.T) {
	const quota, keys, workers, rounds = 40, 3, 4, 4000
	const window = rule.Micros(1000)
	memory, _ := unlimitedSlab()
	f := newLogForm(memory, window)
	var ticks atomic.Int64
	clock := &clock{now: func() rule.Micros { return testStart + rule.Micros(ticks.Load()) }}
	limit := &rule.Limit{Algorithm: rule.SlidingLog, Quota: quota, Window: window}
	slots := make([]line, keys)
	for i := range slots {
		slots[i][hashWord].Store(uint64(i + 1))
	}
	var mu sync.Mutex
	admitted := make([][]rule.Micros, keys)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range rounds {
				key := random.IntN(keys)
				l := &slots[key]
				cost := random.Int64N(3)
				ticks.Add(random.Int64N(20))
				outcome, remaining, after, _, at := f.take(l, uint64(key+1), limit, clock, cost, nil)
				switch outcome {
				case quick.Undecided:
					f.slowly(t, l, func(s *rule.State) (changed bool) {
						var a rule.Answer
						if a, changed = limit.TakeOne(s, clock.read(), cost); a.Allowed {
							outcome, at = quick.Admitted, a.At
						}
						return changed
					})
				case quick.Refused:
					if after <= 0 || remaining >= cost {
						t.Errorf("a cost of %d is refused for %d with %d remaining", cost, after, remaining)
					}
				}
				if outcome == quick.Admitted && cost > 0 {
					mu.Lock()
					for range cost {
						admitted[key] = append(admitted[key], at)
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for key, times := range admitted {
		slices.Sort(times)
		for i := range times[:len(times)-quota] {
			if times[i+quota]-times[i] < window {
				t.Fatalf("key %d: %d were admitted in %d us", key, quota+1, times[i+quota]-times[i])
			}
		}
		l := &slots[key]
		var s rule.State
		f.load(l, l[controlWord].Load(), &s)
		held := timesOf(&s.Log)
		if want := times[len(times)-len(held):]; !slices.Equal(held, want) {
			t.Fatalf("key %d holds %v, but %v were admitted", key, held, want)
		}
	}
}

// timesOf returns the times of all units, the oldest first.
func timesOf(log *rule.Log) (times []rule.Micros) {
	for i := range log.Len() {
		times = append(times, log.Time(i))
	}
	return times
}
