package blocks

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// slowBlocks is a model of blocks, as simple as possible.
type slowBlocks struct {
	most  int
	until map[string]time.Time
}

func (s *slowBlocks) add(key string, until, now time.Time) {
	for other, end := range s.until {
		if !end.After(now) {
			delete(s.until, other)
		}
	}
	if old, ok := s.until[key]; ok && !until.After(old) {
		return
	}
	s.until[key] = until
	if len(s.until) <= s.most {
		return
	}
	first := ""
	for other, end := range s.until {
		if first == "" || end.Before(s.until[first]) {
			first = other
		}
	}
	delete(s.until, first)
}

// The remembered blocks are those of the model, for any sequence of calls. All ends differ, so that exactly one ends soonest.
func TestBlocksAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "most")
		fast, slow := New[string](most), &slowBlocks{most: most, until: map[string]time.Time{}}
		now := time.Unix(1_800_000_000, 0)
		key := rapid.StringMatching(`[a-j]`)
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pass")) * time.Second)
			hold := time.Duration(rapid.IntRange(1, 60).Draw(t, "hold"))*time.Second + time.Duration(i)
			one := key.Draw(t, "key")
			fast.Add(one, now.Add(hold), fmt.Sprint(i), now)
			slow.add(one, now.Add(hold), now)
			if len(fast.byKey) != len(slow.until) || len(fast.byEnd) != len(slow.until) || len(slow.until) > most {
				t.Fatalf("got %d and %d blocks, want %d of at most %d", len(fast.byKey), len(fast.byEnd), len(slow.until), most)
			}
			for c := 'a'; c <= 'j'; c++ {
				want := max(0, slow.until[string(c)].Sub(now))
				if left, _ := fast.Find(string(c), now); left != want {
					t.Fatalf("%c: got %v, want %v", c, left, want)
				}
			}
		}
	})
}

// A key is refused by the limit that blocks it for longest, exactly until the block ends.
func TestBlocksName(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b := New[string](1)
	b.Add("k", now.Add(5), "five", now)
	b.Add("k", now.Add(3), "three", now)
	if left, limit := b.Find("k", now.Add(4)); left != 1 || limit != "five" {
		t.Errorf("got %v by %s, want 1ns by five", left, limit)
	}
	b.Add("k", now.Add(9), "nine", now)
	if left, limit := b.Find("k", now.Add(5)); left != 4 || limit != "nine" {
		t.Errorf("got %v by %s, want 4ns by nine", left, limit)
	}
	if left, _ := b.Find("k", now.Add(9)); left != 0 || b.some.Load() || len(b.byKey) > 0 {
		t.Errorf("after the block has ended: got %v and %d blocks, want none", left, len(b.byKey))
	}
}
