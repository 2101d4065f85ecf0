package memstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/internal/summary"
	"github.com/slidegate/slidegate/rule"
)

const (
	second = rule.Micros(1_000_000)
	today  = 1_767_000_000 * second
)

// budget is the memory that may still be granted.
type budget struct {
	mu        sync.Mutex
	left, out int64
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left, b.out = b.left-n, b.out+n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.out = b.left+n, b.out-n
}

func (b *budget) memory(limit rule.Limit) *forgotten {
	return newForgotten(shape.Of(&limit), b.take, b.give)
}

func someLimits(t testing.TB) (limits []rule.Limit) {
	for _, l := range []rule.Limit{
		{Algorithm: rule.SlidingLog, Quota: 100, Window: 60 * second},
		{Algorithm: rule.InFlight, Quota: 100, Window: 60 * second},
		{Algorithm: rule.TokenBucket, Quota: 10, Burst: 1000, Window: second},
		{Algorithm: rule.SlidingWindow, Quota: 1000, Window: 60 * second},
		{Algorithm: rule.SlidingWindow, Quota: 1000, Window: 64 * second, Segments: 64, Overlap: rule.OverlapWhole},
		{Algorithm: rule.SlidingWindow, Quota: 1000, Window: 60 * second, Segments: 6, Anchor: rule.AnchorFirst},
		{Algorithm: rule.FixedWindow, Quota: 5, Window: 60 * second},
		{Algorithm: rule.FixedWindow, Quota: 5, Window: 60 * second, Anchor: rule.AnchorFirst},
		{Algorithm: rule.FixedWindow, Quota: 5, Calendar: rule.Day, Zone: "America/Sao_Paulo"},
		{Algorithm: rule.FixedWindow, Quota: 5, Calendar: rule.Month},
	} {
		normal, err := l.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, normal)
	}
	return limits
}

// player plays a random script with a memory and with a map that remembers everything.
type player struct {
	t     *testing.T
	rng   *rand.Rand
	limit rule.Limit
	room  *budget
	f     *forgotten
	keys  []uint64
	truth map[uint64]rule.State // states that were forgotten and not reset
	now   rule.Micros
}

// Whatever happens, and however little memory there is, a forgotten key is recalled with at least what it had.
func TestForgottenOnlyErrsTowardRefusal(t *testing.T) {
	Alone(t)
	for _, limit := range someLimits(t) {
		for _, room := range []int64{0, 4 << 10, 20 << 10, 1 << 30} {
			t.Run(fmt.Sprintf("%v/%d", shape.Name(&limit), room), func(t *testing.T) {
				for seed := range uint64(3) {
					p := player{
						t: t, rng: rand.New(rand.NewPCG(seed, 1)), limit: limit, room: &budget{left: room},
						truth: map[uint64]rule.State{}, now: today,
					}
					p.f = p.room.memory(limit)
					for range 3000 {
						p.keys = append(p.keys, p.rng.Uint64())
					}
					for range 20_000 {
						p.step()
					}
					p.end()
				}
			})
		}
	}
}

func (p *player) step() {
	h := p.keys[p.rng.IntN(len(p.keys))]
	switch n := p.rng.IntN(1000); {
	case n < 600:
		p.forget(h)
	case n < 900:
		p.recall(h)
	case n < 930:
		p.f.reset(h, p.now)
		delete(p.truth, h)
		if m, found := p.f.recall(h, p.now); found {
			p.t.Fatalf("recalled %+v after a reset", m)
		}
	case n < 998:
		p.now += rule.Micros(p.rng.Int64N(int64(p.limit.Window) / 300))
	case n < 999:
		p.now += rule.Micros(p.rng.Int64N(3 * int64(p.limit.Window)))
	default:
		p.restart()
	}
}

// forget charges a key and forgets it. It charges the recalled state, as a store does.
func (p *player) forget(h uint64) {
	var s rule.State
	if m, found := p.f.recall(h, p.now); found {
		m.Recall(&p.limit, &s)
	}
	truth := p.truth[h]
	units := min(p.rng.Int64N(p.limit.Capacity())+1, p.rng.Int64N(50)+1)
	if p.limit.Algorithm == rule.InFlight {
		units = 1
	}
	if p.limit.Anchor == rule.AnchorFirst && p.limit.Used(&s, p.now)+units > p.limit.Quota {
		return // charging it nevertheless would begin another grid
	}
	for _, state := range []*rule.State{&s, &truth} {
		rule.Decide(rule.Charge, []rule.Item{{Limit: &p.limit, State: state, Cost: units}}, p.now, make([]rule.Answer, 1))
	}
	p.truth[h] = truth
	p.f.remember(h, summary.Of(&p.limit, &s, p.now), p.now)
	p.recall(h)
}

func (p *player) recall(h uint64) {
	truth := p.truth[h]
	want := summary.Of(&p.limit, &truth, p.now)
	got, found := p.f.recall(h, p.now)
	if want.Units == 0 {
		return
	}
	if !found || got.Units < want.Units || got.At < want.At || got.Expires < want.Expires {
		p.t.Fatalf("at %d: recalled %+v, %v, but %+v was forgotten: %+v", p.now, got, found, want, truth)
	}
	if p.limit.Anchor == rule.AnchorFirst && got.At != want.At && got.Units != rule.MaxQuota {
		p.t.Fatalf("at %d: recalled %+v, but the window starts at %d", p.now, got, want.At)
	}
	var s rule.State
	got.Recall(&p.limit, &s)
	if used, want := p.limit.Used(&s, p.now), p.limit.Used(&truth, p.now); used < min(want, p.limit.Capacity()) {
		p.t.Fatalf("at %d: used %d, want at least %d, recalled from %+v", p.now, used, want, got)
	}
	if p.limit.Expires(&s) < p.limit.Expires(&truth) {
		p.t.Fatalf("at %d: recalled until %d, but the state expires at %d", p.now, p.limit.Expires(&s), p.limit.Expires(&truth))
	}
}

// restart saves the memory and continues with the restored one, with more or less memory than before.
func (p *player) restart() {
	p.room = &budget{left: p.room.left + p.room.out}
	if p.rng.IntN(2) == 0 {
		p.room.left /= 2
	}
	saved := save(p.f, p.now)
	p.f = p.room.memory(p.limit)
	load(p.t, p.f, saved, p.now)
}

func (p *player) end() {
	if granted := p.f.bytes() - p.room.out; granted < 0 || granted > maxLayers*smallLayer {
		p.t.Fatalf("it has %d bytes, but %d were granted", p.f.bytes(), p.room.out)
	}
	p.now += 10_000 * p.limit.Window
	p.f.expire(p.now)
	if p.f.bytes() != 0 || p.f.held() != 0 || p.room.out != 0 {
		p.t.Fatalf("when all has expired: got %d bytes and %d keys, and %d bytes not released", p.f.bytes(), p.f.held(), p.room.out)
	}
}

// save returns the records of a memory.
func save(f *forgotten, now rule.Micros) (records [][]byte) {
	f.save(now, 1, func(record []byte) { records = append(records, bytes.Clone(record)) })
	return records
}

// load replays records into a memory.
func load(t testing.TB, f *forgotten, records [][]byte, now rule.Micros) {
	t.Helper()
	for _, record := range records {
		if err := loadOne(f, record, now); err != nil {
			t.Fatal(err)
		}
	}
}

func loadOne(f *forgotten, record []byte, now rule.Micros) error {
	d := newDecoder(record)
	then, tag := d.time(), d.Int()
	f.replay(d, then, now)
	d.Check(tag == 1 && len(d.Rest) == 0)
	return d.Err
}

// With enough memory, little is rounded, and hardly any other key is mistaken for one of the keys.
func TestForgottenIsAlmostExact(t *testing.T) {
	Alone(t)
	for _, limit := range someLimits(t) {
		t.Run(shape.Name(&limit), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			f := (&budget{left: 1 << 30}).memory(limit)
			const keys = 20_000
			truth := map[uint64]summary.Summary{}
			for i := range keys {
				var s rule.State
				now := today + rule.Micros(i)*(limit.Window*3/2)/keys
				limit.TakeOne(&s, now, 1)
				h := rng.Uint64()
				truth[h] = summary.Of(&limit, &s, now)
				f.remember(h, truth[h], now)
			}
			now, other := today+limit.Window*3/2, 0
			for h, want := range truth {
				if want.Expires <= now {
					continue
				}
				got, found := f.recall(h, now)
				if !found {
					t.Fatalf("%+v is not recalled", want)
				}
				late := got.At - want.At
				if limit.Parts() > 0 && limit.Calendar == 0 && late != 0 || late > want.Expires/50-want.At/50 {
					other++
				}
			}
			if other > keys/500 {
				t.Errorf("%d of %d are recalled with a different time", other, keys)
			}
			strangers := 0
			for range keys {
				if _, found := f.recall(rng.Uint64(), now); found {
					strangers++
				}
			}
			if strangers > keys/500 || f.exact && strangers > 0 {
				t.Errorf("%d of %d other keys are recalled", strangers, keys)
			}
		})
	}
}

// A flood takes memory gradually, and after it ends the large layers are dropped even if a few keys are still being
// forgotten.
func TestForgottenShrinksAfterAFlood(t *testing.T) {
	Alone(t)
	room := &budget{left: 1 << 30}
	limit := someLimits(t)[0]
	f := room.memory(limit)
	rng := rand.New(rand.NewPCG(1, 3))
	now := today
	forget := func(n int, every rule.Micros) {
		for range n {
			f.remember(rng.Uint64(), summary.Summary{Units: 3, At: now, Expires: now + limit.Window}, now)
			now += every
		}
	}
	forget(500_000, 10)
	if held := f.held(); held < 499_000 || held > 500_000 {
		t.Errorf("%d keys are held, want about 500,000", held)
	}
	if flooded := f.bytes(); flooded < 2_000_000 || flooded > 8_000_000 || flooded != room.out {
		t.Errorf("half a million keys take %d bytes, of %d granted", flooded, room.out)
	}
	forget(100, 2*limit.Window/100)
	if calm := f.bytes(); calm > firstLayer || calm != room.out {
		t.Errorf("%d bytes are left, of %d granted", calm, room.out)
	}
}

// Reset frees one key, but none of those that share its trace.
func TestForgottenReset(t *testing.T) {
	room := &budget{} // no memory, so that all keys share a few rows
	limit := someLimits(t)[3]
	f := room.memory(limit)
	rng := rand.New(rand.NewPCG(1, 4))
	m := summary.Summary{Units: 7, At: today, Expires: today + 2*limit.Window}
	keys := make([]uint64, 5000)
	for i := range keys {
		keys[i] = rng.Uint64()
		f.remember(keys[i], m, today)
	}
	f.reset(keys[0], today)
	if m, found := f.recall(keys[0], today); found {
		t.Errorf("recalled %+v after a reset", m)
	}
	for _, h := range keys[1:] {
		if got, found := f.recall(h, today); !found || got.Units < m.Units {
			t.Fatalf("recalled %+v after a reset of another key", got)
		}
	}
	f.remember(keys[0], summary.Summary{Units: 1, At: today, Expires: m.Expires}, today)
	if got, found := f.recall(keys[0], today); !found || got.Units < 1 {
		t.Errorf("forgotten again after a reset, but recalled as %+v", got)
	}
}

// Codes are exact for few units, and never stand for less than they were made from.
func TestCodesOfUnits(t *testing.T) {
	for _, c := range []struct {
		digits uint
		most   int64
		off    float64
	}{{countDigits, rule.MaxQuota, 1.25}, {logDigits, rule.MaxLogQuota, 1.0625}} {
		numbers := []int64{c.most, c.most - 1}
		for n := int64(1); n < min(c.most, 100_000); n++ {
			numbers = append(numbers, n)
		}
		for power := int64(1); power < c.most/2; power *= 2 {
			numbers = append(numbers, power-1, power, power+1, power+power/3)
		}
		for _, n := range numbers {
			if n < 1 {
				continue
			}
			units := unitsOf(codeOf(n, c.digits), c.digits)
			if units < n || n <= 64 && units != n || float64(units) > c.off*float64(n) {
				t.Errorf("%d units become %d", n, units)
			}
		}
	}
	if unitsOf(maxCode, countDigits) != rule.MaxQuota {
		t.Errorf("the highest code stands for %d", unitsOf(maxCode, countDigits))
	}
}

// A clock that was a year ahead when a memory was saved does not lock keys out for a year.
func TestForgottenAheadOfTheClock(t *testing.T) {
	for _, limit := range someLimits(t) {
		for _, room := range []int64{0, 1 << 20} {
			f := (&budget{left: room}).memory(limit)
			rng := rand.New(rand.NewPCG(1, 5))
			keys := make([]uint64, 500)
			for i := range keys {
				keys[i] = rng.Uint64()
				var s rule.State
				limit.TakeOne(&s, today, 1)
				f.remember(keys[i], summary.Of(&limit, &s, today), today)
			}
			saved := save(f, today)
			f = (&budget{left: room}).memory(limit)
			now := today - 2*366*86_400*second
			load(t, f, saved, now)
			for _, h := range keys {
				if m, found := f.recall(h, now); !found || m.Units < 1 {
					t.Fatalf("%v: recalled %+v, %v", shape.Name(&limit), m, found)
				}
			}
			if f.expire(now + 3*limit.Window); f.held() != 0 {
				t.Errorf("%v: %d keys are held three windows later", shape.Name(&limit), f.held())
			}
		}
	}
}

// Any bytes can be read without a panic.
func TestForgottenDamaged(t *testing.T) {
	for _, limit := range someLimits(t) {
		f := (&budget{left: 1 << 20}).memory(limit)
		rng := rand.New(rand.NewPCG(1, 6))
		for range 300 {
			var s rule.State
			limit.TakeOne(&s, today, 1)
			f.remember(rng.Uint64(), summary.Of(&limit, &s, today), today)
		}
		saved := save(f, today)
		for range 200 {
			f := (&budget{left: 1 << 20}).memory(limit)
			for _, record := range saved {
				damaged := bytes.Clone(record)
				for range rng.IntN(5) {
					damaged[rng.IntN(40)] = byte(rng.Uint32())
					damaged[rng.IntN(len(damaged))] = byte(rng.Uint32())
				}
				if rng.IntN(4) == 0 {
					damaged = damaged[:rng.IntN(len(damaged))]
				}
				_ = loadOne(f, damaged, today) // an error, or rows of something else
			}
			f.recall(rng.Uint64(), today)
		}
	}
}

// Several goroutines concurrently forget and recall keys of their own; none of them misses any.
func TestForgottenConcurrently(t *testing.T) {
	for _, limit := range someLimits(t) {
		room := &budget{left: 64 << 10}
		f := room.memory(limit)
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(g, 7))
				for range 500 {
					h, m := rng.Uint64(), summary.Summary{}
					var s rule.State
					limit.TakeOne(&s, today, 1)
					m = summary.Of(&limit, &s, today)
					f.remember(h, m, today)
					if got, found := f.recall(h, today); !found || got.Units < 1 || got.At < m.At {
						t.Errorf("recalled %+v, %v", got, found)
						return
					}
					if f.reset(h, today); g == 0 && rng.IntN(50) == 0 {
						save(f, today)
					}
					f.held()
					f.expire(today)
				}
			})
		}
		wg.Wait()
	}
}
