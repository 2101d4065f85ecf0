package httplimit

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
	if old, ok := s.until[key]; ok && !until.After(old) {
		return
	}
	if _, ok := s.until[key]; !ok {
		for other, end := range s.until {
			if !end.After(now) {
				delete(s.until, other)
			}
		}
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
		fast, slow := newBlocks(most), &slowBlocks{most: most, until: map[string]time.Time{}}
		now := time.Unix(1_800_000_000, 0)
		key := rapid.StringMatching(`[a-j]`)
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pass")) * time.Second)
			hold := time.Duration(rapid.IntRange(1, 60).Draw(t, "hold"))*time.Second + time.Duration(i)
			one := key.Draw(t, "key")
			fast.add(one, now.Add(hold), fmt.Sprint(i), now)
			slow.add(one, now.Add(hold), now)
			if len(fast.byKey) != len(slow.until) || len(fast.byEnd) != len(slow.until) || len(slow.until) > most {
				t.Fatalf("got %d and %d blocks, want %d of at most %d", len(fast.byKey), len(fast.byEnd), len(slow.until), most)
			}
			for c := 'a'; c <= 'j'; c++ {
				want := max(0, slow.until[string(c)].Sub(now))
				refused := fast.refusal(string(c), now)
				if (refused == nil) != (want == 0) || refused != nil && refused.RetryAfter != want {
					t.Fatalf("%c: got %+v, want %v", c, refused, want)
				}
			}
		}
	})
}

// A key is refused by the limit that blocks it for longest, exactly until the block ends.
func TestBlocksName(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b := newBlocks(1)
	b.add("k", now.Add(5), "five", now)
	b.add("k", now.Add(3), "three", now)
	if refused := b.refusal("k", now.Add(4)); refused == nil || refused.Limit != "five" || refused.RetryAfter != 1 || !refused.Server {
		t.Errorf("got %+v, want five", refused)
	}
	b.add("k", now.Add(9), "nine", now)
	if refused := b.refusal("k", now.Add(5)); refused == nil || refused.Limit != "nine" {
		t.Errorf("got %+v, want nine", refused)
	}
	if refused := b.refusal("k", now.Add(9)); refused != nil {
		t.Errorf("after the block has ended: got %+v, want nil", refused)
	}
}
