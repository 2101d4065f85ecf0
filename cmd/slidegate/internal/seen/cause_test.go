package seen

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
)

// TestRefusalsAreCountedByCause: what refused a key most is named, not what refused it last, in each window and over all instances.
func TestRefusalsAreCountedByCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(0, 9, "ann", &Event{Refused: true, By: "ruling"})
		testkit.Pass(10 * time.Minute)
		reloaded := limit // the same limit at another address
		c.add(0, 30, "ann", refusal())
		c.add(0, 10, "ann", &Event{Refused: true, By: ByLimits, Limit: &reloaded})
		c.add(0, 2, "ann", &Event{Refused: true, By: "ruling"})
		c.add(1, 1, "ann", &Event{Refused: true, By: "ruling"})
		c.add(1, 4, "ann", &Event{Refused: true, Shadow: true, By: ByLimits, Limit: &limit})
		d := c.exchanges[1].Document(t.Context(), 20)
		k := d.Keys["5"].Refused[0]
		want := []Cause{{ByLimits, "100/1m", false, 40}, {ByLimits, "100/1m", true, 4}, {"ruling", "", false, 3}}
		if !slices.Equal(k.Causes, want) || k.Refused != 47 || k.ShadowRefused != 4 || k.By != ByLimits || k.Limit != "100/1m" || k.Shadow {
			t.Errorf("got %+v, want %v, and the first of them as its cause", k, want)
		}
		want[2].Refused = 12
		if k = d.Keys["60"].Refused[0]; !slices.Equal(k.Causes, []Cause{want[0], want[2], want[1]}) || k.Refused != 56 {
			t.Errorf("in the hour: got %+v, want %v", k, want)
		}
	})
}

// TestManyCausesAreBounded: more causes than are told apart are counted together, and a cause that is gone makes room.
func TestManyCausesAreBounded(t *testing.T) {
	c := newClock()
	r := NewRecord(c.now)
	refuse := func(by string) { r.Policy("api").Add("ann", &Event{Refused: true, By: by}) }
	said := func() (texts []string) {
		r.Policy("api").eachShard(func(sh *shard) {
			for _, k := range sh.list {
				for _, one := range k.said(r.minute.Load()) {
					texts = append(texts, fmt.Sprint(one.By, one.Refused[2]))
				}
			}
		})
		return texts
	}
	for i := range 6 {
		refuse(fmt.Sprint("cause ", i, "="))
		refuse("cause 0=")
	}
	if got := said(); !slices.Equal(got, []string{"cause 0=7", "cause 1=1", "cause 2=1", "other3"}) {
		t.Errorf("got %q, want three causes and the others", got)
	}
	c.pass((hour+1)*time.Minute, r)
	for i := range 3 {
		refuse(fmt.Sprint("later ", i, "="))
	}
	if got := said(); !slices.Equal(got, []string{"later 0=1", "later 1=1", "later 2=1"}) {
		t.Errorf("an hour later: got %q, want only the new causes", got)
	}
}

// TestShadowComesLast: keys that were refused come before those that shadow mode admitted, however often those would have been refused.
func TestShadowComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		for i := range 2 * listed {
			c.add(1, 100, fmt.Sprint("shadow ", i), &Event{Refused: true, Shadow: true, By: ByLimits, Limit: &limit})
		}
		c.add(1, 1, "ann", refusal())
		keys := c.exchanges[0].Document(t.Context(), 20).Keys["5"].Refused
		if len(keys) != 20 || keys[0].Refused != 1 || keys[0].ShadowRefused != 0 || keys[1].ShadowRefused != 100 || !keys[1].Shadow {
			t.Errorf("got %+v, want the key that was refused first", keys)
		}
	})
}

// TestPlanOfAKey: the plan by which a key was decided last is listed, so that what is asked about it is about its own limits; and a key
// that is too long to be kept is marked, and the store is not asked about it.
func TestPlanOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		pro := slidegate.Limit{Quota: 10, Window: time.Minute}
		c.add(1, 1, "ann", &Event{Limit: &pro, Remaining: 1, Plan: "pro"})
		c.add(1, 1, strings.Repeat("k", maxKey+1), &Event{Limit: &pro, Remaining: 0})
		c.add(1, 1, strings.Repeat("k", maxKey+1), &Event{Refused: true, By: ByLimits, Limit: &pro, Plan: "free"})
		c.add(1, 1, strings.Repeat("l", maxKey+1), &Event{Limit: &pro, Remaining: 0})
		c.share = func(key string) float64 {
			if IsCut(key) {
				t.Errorf("the store was asked about %.9s…, of which only the beginning is known", key)
			}
			return 0.9
		}
		keys := c.exchanges[0].Document(t.Context(), 20).Keys["5"]
		if near := keys.Nearest; len(near) != 1 || near[0].Plan != "pro" || near[0].Cut {
			t.Errorf("got %+v, want the plan pro", near)
		}
		refused := keys.Refused
		if len(refused) != 1 || refused[0].Plan != "free" || !refused[0].Cut {
			t.Fatalf("got %+v, want one that is cut", refused)
		}
		if key, ok := c.exchanges[0].Key(t.Context(), "api", refused[0].ID); !ok || !IsCut(key) {
			t.Errorf("got %q, %v, want what is known of it", key, ok)
		}
	})
}

// TestWindowsHaveTheSixtyMinutesBefore: the counts of policies and of keys are about the same minutes: the current one and the sixty before it.
func TestWindowsHaveTheSixtyMinutesBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.add(0, 3, "ann", refusal())
		testkit.Pass(hour * time.Minute)
		d := c.exchanges[0].Document(t.Context(), 20)
		if m := d.Policies[0].Minutes; len(m) != 1 || m[0].Refused != 3 || len(d.Keys["60"].Refused) != 1 {
			t.Errorf("got %+v and %+v, want 3 refusals in both", m, d.Keys["60"].Refused)
		}
		testkit.Pass(time.Minute)
		if d = c.exchanges[0].Document(t.Context(), 20); len(d.Policies[0].Minutes) != 0 || len(d.Keys["60"].Refused) != 0 {
			t.Errorf("got %+v, want nothing a minute later", d)
		}
	})
}

// TestNearestDropsWhatNoLimitDecides: a key about which no limit decides any more, such as one that is blocked, is not near; while the store does not
// answer, the last share stays.
func TestNearestDropsWhatNoLimitDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.add(0, 1, "ann", &Event{Limit: &limit, Remaining: 5})
		near := func() []Key { return c.exchanges[0].Document(t.Context(), 20).Keys["5"].Nearest }
		if got := near(); len(got) != 1 || got[0].Share != 0.95 {
			t.Errorf("while the store does not answer: got %+v, want the last share", got)
		}
		c.share = func(string) float64 { return -1 }
		if got := near(); len(got) != 0 {
			t.Errorf("got %+v, want none", got)
		}
	})
}

// TestSharesAreAskedOnceASecond: no matter how often someone looks, the store is asked once in a second how near a key is.
func TestSharesAreAskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.add(0, 1, "ann", &Event{Limit: &limit, Remaining: 5})
		asked := 0
		c.share = func(string) float64 { asked++; return 0.9 }
		for range 5 {
			for range 10 {
				if near := c.exchanges[0].Document(t.Context(), 20).Keys["5"].Nearest; len(near) != 1 || near[0].Share != 0.9 {
					t.Errorf("got %+v, want one key at 0.9", near)
				}
			}
			testkit.Pass(turnEvery)
		}
		if asked != 5 {
			t.Errorf("the store was asked %d times in 5 seconds, want 5", asked)
		}
	})
}

// TestInstanceWithoutThePolicy: an instance that does not have a policy has seen nothing of its keys, so that their counts are exact.
func TestInstanceWithoutThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.records[0].Policy("new").Add("ann", refusal())
		c.records[0].Policy("new").Add("ann", refusal())
		for i := range 3 * listed { // more than it writes
			c.add(1, 1, fmt.Sprint("bob", i), refusal())
		}
		d := c.exchanges[0].Document(t.Context(), listed)
		if k := d.Keys["5"].Refused[0]; k.Policy != "new" || k.Refused != 2 || k.AtLeast {
			t.Errorf("got %+v, want exactly 2 of the policy that only one has", k)
		}
	})
}

// TestStoreThatComesBack: instances that were there before the store was away are not shown as gone when it is back; one that ended
// meanwhile is, seven seconds later.
func TestStoreThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		look := func() *Document { return c.exchanges[0].Glance(t.Context(), 20) }
		pass := func(n int) {
			for range n {
				testkit.Pass(time.Second)
				look()
			}
		}
		look()
		pass(6)
		c.store.down.Store(true)
		pass(3)
		c.stops[2]()
		pass(30)
		c.store.down.Store(false)
		for range 4 {
			testkit.Pass(time.Second)
			d := look()
			if d.Scope != "all" {
				continue
			}
			for _, i := range d.Instances {
				if i.Name != "host:2" && !i.Alive {
					t.Errorf("%s is shown as gone", i.Name)
				}
			}
		}
		pass(quietReads)
		d := look()
		for _, i := range d.Instances {
			if i.Alive != (i.Name != "host:2") {
				t.Errorf("got %+v, want only the last one gone", i)
			}
		}
		if d.Scope != "all" || len(d.Instances) != 3 {
			t.Errorf("got %s %+v, want three instances", d.Scope, d.Instances)
		}
	})
}
