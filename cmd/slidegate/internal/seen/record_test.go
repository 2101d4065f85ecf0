package seen

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// clock is a clock that tests set.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.at }

// pass moves the clock, and the record with it.
func (c *clock) pass(d time.Duration, r *Record) {
	c.at = c.at.Add(d)
	r.Tick()
}

var limit = slidegate.Limit{Quota: 100, Window: time.Minute}

func refusal() *Event   { return &Event{Refused: true, By: ByLimits, Limit: &limit} }
func admission() *Event { return &Event{By: ByLimits, Limit: &limit, Remaining: 90} }

// TestCountsEqualAModel: the counts by minute and by key are those of a model that keeps every event, through two hours in which keys
// come and go.
func TestCountsEqualAModel(t *testing.T) {
	type event struct {
		at       int64
		key      string
		outcome  int
		fallback bool
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	c := newClock()
	r := NewRecord(c.now)
	p := r.Policy("api")
	var events []event
	for range 400 {
		for range random.IntN(30) {
			e := event{r.minute.Load(), fmt.Sprint("key", random.IntN(20)), random.IntN(3), random.IntN(4) == 0}
			p.Add(e.key, &Event{Refused: e.outcome > 0, Shadow: e.outcome > 1, Fallback: e.fallback})
			events = append(events, e)
		}
		c.pass(time.Duration(random.IntN(60))*time.Second, r)
		now := r.minute.Load()
		counts, keys := map[int64]Counts{}, map[string]Pair{}
		for _, e := range events {
			if e.at < now-hour {
				continue
			}
			n, k := counts[e.at], keys[e.key]
			switch e.outcome {
			case 0:
				n.Admitted++
				k[0]++
			case 1:
				n.Refused++
				k[1]++
			default:
				n.ShadowRefused++
				k[1]++
			}
			if e.fallback {
				n.WithoutStore++
			}
			counts[e.at], keys[e.key] = n, k
		}
		got, gotKeys := map[int64]Counts{}, map[string]Pair{}
		for _, m := range p.since(now-hour, now) {
			got[m.at] = m.Counts
		}
		p.eachShard(func(sh *shard) {
			for _, k := range sh.list {
				if n := k.within(now - hour); n != (Pair{}) {
					gotKeys[k.key] = n
				}
			}
		})
		if !maps.Equal(got, counts) || !maps.Equal(gotKeys, keys) {
			t.Fatalf("seed %d: got %v %v, want %v %v", seed, got, gotKeys, counts, keys)
		}
	}
}

// TestExactUpToTheBound: up to the bound no key is forgotten; beyond it the number of keys stays, and new ones are marked.
func TestExactUpToTheBound(t *testing.T) {
	c := newClock()
	r := NewRecord(c.now)
	p := r.Policy("api")
	for i := range MaxKeys {
		p.Add(fmt.Sprint("key", i), admission())
	}
	if r.tracked() != MaxKeys || p.lastLost.Load() != 0 {
		t.Fatalf("got %d keys, lost at %d, want %d and no loss", r.tracked(), p.lastLost.Load(), MaxKeys)
	}
	c.pass(time.Minute, r)
	for i := range 3 * MaxKeys {
		p.Add(fmt.Sprint("other", i), admission())
	}
	if r.tracked() > MaxKeys || p.lastLost.Load() != r.minute.Load() {
		t.Errorf("got %d keys, lost at %d, want at most %d and a loss", r.tracked(), p.lastLost.Load(), MaxKeys)
	}
}

// TestAllPoliciesTogetherAreBounded: keys of many policies share the memory.
func TestAllPoliciesTogetherAreBounded(t *testing.T) {
	r := NewRecord(newClock().now)
	for i := range 30 {
		p := r.Policy(fmt.Sprint("policy", i))
		for j := range 3000 {
			p.Add(fmt.Sprint("key", j), refusal())
		}
	}
	for range 2 { // policies that were there first make room
		for i := range 30 {
			for j := range 3000 {
				r.Policy(fmt.Sprint("policy", i)).Add(fmt.Sprint("other", j), refusal())
			}
		}
	}
	if n := r.tracked(); n > maxAll {
		t.Errorf("got %d keys, want at most %d", n, maxAll)
	}
	for i := range 2 * maxPolicies {
		r.Policy(fmt.Sprint("policy", i)).Add("key", refusal())
	}
	if n := len(r.policies); n > maxPolicies+1 {
		t.Errorf("got %d policies, want at most %d", n, maxPolicies+1)
	}
}

// TestFloodHidesNoKey: among a flood of keys that are refused once each, keys that are refused repeatedly are found, their counts are
// not too high, and they are marked as at least what they say.
func TestFloodHidesNoKey(t *testing.T) {
	r := NewRecord(newClock().now)
	p := r.Policy("api")
	want := map[string]int64{}
	for i := range 200_000 {
		p.Add(fmt.Sprint("once", i), refusal())
		if i%100 == 99 && i > 20_000 { // from when there is no room
			key := fmt.Sprint("often", i/100%3)
			p.Add(key, refusal())
			want[key]++
		}
	}
	for _, k := range p.refused()[:3] {
		if n, ok := want[k.key]; !ok || k.n > n || k.n < n*9/10 {
			t.Errorf("got %+v, want one that was refused %d times", k, n)
		}
		var found *entry
		p.eachShard(func(sh *shard) {
			if one := sh.entries[k.key]; one != nil {
				found = one
			}
		})
		if found == nil || found.lostBefore == 0 {
			t.Errorf("%s: got %+v, want a mark that it may have been forgotten", k.key, found)
		}
	}
}

// TestOldKeysMakeRoomFirst: keys that were refused often an hour ago make room for those of now.
func TestOldKeysMakeRoomFirst(t *testing.T) {
	c := newClock()
	r := NewRecord(c.now)
	p := r.Policy("api")
	for i := range MaxKeys {
		for range 5 {
			p.Add(fmt.Sprint("old", i), refusal())
		}
	}
	c.pass((hour+1)*time.Minute, r)
	for i := range 500 {
		p.Add(fmt.Sprint("new", i), admission())
	}
	n := 0
	p.eachShard(func(sh *shard) {
		for key := range sh.entries {
			if strings.HasPrefix(key, "new") {
				n++
			}
		}
	})
	if n != 500 || p.lastLost.Load() != 0 {
		t.Errorf("got %d of 500 new keys, lost at %d, want all, and no loss: what made room was gone anyway", n, p.lastLost.Load())
	}
}

// TestLongKeysStayTwo: of a long key only the beginning is kept, and two that begin alike are still two.
func TestLongKeysStayTwo(t *testing.T) {
	r := NewRecord(newClock().now)
	long := strings.Repeat("k", 1<<16)
	for _, key := range []string{long + "a", long + "b", long + "b"} {
		r.Policy("api").Add(key, refusal())
	}
	got := r.Policy("api").refused()
	if len(got) != 2 || got[0].n != 2 || got[1].n != 1 || len(got[0].key) != maxKey+1 || !IsCut(got[0].key) {
		t.Errorf("got %v, want two keys of %d bytes that are cut, refused 2 and 1 times", got, maxKey+1)
	}
	if whole := long[:maxKey]; shorten(whole) != whole || IsCut(whole) {
		t.Errorf("a key of %d bytes was cut", maxKey)
	}
}

// TestRoutes: the routes that a key uses most are found among many.
func TestRoutes(t *testing.T) {
	r := NewRecord(newClock().now)
	p := r.Policy("api")
	for i := range 1000 {
		p.Add("ann", &Event{Method: "GET", Route: fmt.Sprint("/once/", i)})
		p.Add("ann", &Event{Method: "GET", Route: "/often"})
		p.Add("ann", &Event{Method: "POST", Route: "/often"})
	}
	var got []string
	p.eachShard(func(sh *shard) {
		for _, k := range sh.list {
			got = k.topRoutes()
		}
	})
	if len(got) > maxRoutes || !slices.Contains(got[:2], "GET /often") || !slices.Contains(got[:2], "POST /often") {
		t.Errorf("got %q, want GET /often and POST /often first", got)
	}
}

// TestConcurrentEventsAreAllCounted: nothing is lost or counted twice while others read.
func TestConcurrentEventsAreAllCounted(t *testing.T) {
	r := NewRecord(newClock().now)
	p := r.Policy("api")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 20_000 {
				p.Add(fmt.Sprint("key", i%100), refusal())
				if i%1000 == 0 {
					p.refused()
					p.since(0, r.minute.Load())
				}
			}
		})
	}
	all.Wait()
	var keys int64
	for _, k := range p.refused() {
		keys += k.n
	}
	if counts := p.since(r.minute.Load()-hour, r.minute.Load()); len(counts) != 1 || counts[0].Refused != 80_000 || keys != 80_000 {
		t.Errorf("got %v and %d by key, want 80000", counts, keys)
	}
}

// TestMask: enough is left to recognise a key, and nothing that does something to a terminal.
func TestMask(t *testing.T) {
	for key, want := range map[string]string{
		"": "…", "bob": "…", "anna": "a…a", "ann-1234": "an…4", "203.0.113.7": "20…7", "\x1b[2Jabcdef": "�[…f", "\u202eabcdefgh": "�a…h", "äöüßäöüß": "äö…ß",
		string([]byte{0xff, 0xfe, 'a', 'b'}): "�…b",
	} {
		if got := mask(key); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}
