package failure_test

import (
	"context"
	"errors"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// cluster is a store with several nodes. Keys that begin with a letter from a on belong to that node, others to any.
type cluster struct {
	*remote
	mu    sync.Mutex
	size  int
	fails map[int]error // nodes that fail; nil means that they do not answer
	calls map[int]int   // without probes
}

func newCluster(t testing.TB) *cluster {
	return &cluster{remote: newRemote(t), size: 3, fails: map[int]error{}, calls: map[int]int{}}
}

func (c *cluster) Node(_ *store.Limit, _, key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := strings.Index("abc", key[:1]); i >= 0 && i < c.size {
		return 40 * i
	}
	hash := fnv.New32()
	hash.Write([]byte(key))
	return 40 * int(hash.Sum32()%uint32(c.size))
}

func (c *cluster) Apply(ctx context.Context, batch []store.Request) (first error) {
	for i := range batch {
		n := c.Node(nil, "", batch[i].Charges[0].Key)
		c.mu.Lock()
		if !isProbe(batch[i:]) {
			c.calls[n]++
		}
		err, fails := c.fails[n]
		c.mu.Unlock()
		if fails && err == nil {
			<-ctx.Done()
			err = ctx.Err()
		}
		if batch[i].Err = err; err == nil {
			err = c.Store.Apply(ctx, batch[i:i+1])
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (c *cluster) set(fails map[int]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = fails
}

// One node that is down or does not answer puts only its own keys under the failure mode, and only it is probed.
func TestNodesFailSeparately(t *testing.T) {
	for _, fault := range []error{errDown, nil} {
		synctest.Test(t, func(t *testing.T) {
			inner := newCluster(t)
			var changes []error
			st := newStore(t, layerBelow{inner, t}, store.FailOpen, failure.Options{OnChange: func(err error) { changes = append(changes, err) }})
			limit := bind(t, ten)
			take := func(keys ...string) (flags []rule.Flags) {
				var batch []store.Request
				for _, key := range keys {
					batch = append(batch, request(rule.Take, store.Charge{Limit: limit, Key: key, Cost: 1}))
				}
				if err := st.Apply(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
				for i := range batch {
					flags = append(flags, batch[i].Answers[0].Flags)
				}
				return flags
			}
			const out = rule.FallbackOpen
			check := func(when string, want [3]rule.Flags) {
				t.Helper()
				if got := [3]rule.Flags(take("a", "b", "c")); got != want {
					t.Errorf("%s: got %v, want %v", when, got, want)
				}
				for i, key := range []string{"a2", "b2", "c2"} {
					a, err := ways["TakeSingle"](t.Context(), st, store.Charge{Limit: limit, Key: key, Cost: 1})
					if err != nil || a.Flags != want[i] {
						t.Errorf("%s, key %s: got %+v, %v, want %v", when, key, a, err, want[i])
					}
				}
			}
			check("healthy", [3]rule.Flags{})
			inner.set(map[int]error{40: fault})
			if took := timed(func() { check("one node is out", [3]rule.Flags{0, out, 0}) }); fault != nil && took != 0 || took > 100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			inner.mu.Lock()
			inner.calls = map[int]int{}
			inner.mu.Unlock()
			for range 5 {
				testkit.Pass(time.Second)
				if took := timed(func() { take("a", "b", "c") }); took != 0 {
					t.Errorf("a request took %v", took)
				}
			}
			if inner.calls[40] != 0 || inner.calls[0] != 5 || inner.calls[80] != 5 {
				t.Errorf("got the calls %v, want none of the node that is out", inner.calls)
			}
			inner.set(map[int]error{40: fault, 80: errDown})
			check("two nodes are out", [3]rule.Flags{0, out, out})
			inner.set(map[int]error{40: fault})
			testkit.Pass(1100 * time.Millisecond)
			if check("one is back", [3]rule.Flags{0, out, 0}); st.Health() == nil || len(changes) != 2 {
				t.Errorf("got health %v and the changes %v, want one node that is out, and two changes", st.Health(), changes)
			}
			inner.set(nil)
			testkit.Pass(1100 * time.Millisecond)
			check("all are back", [3]rule.Flags{})
			if err := st.Health(); err != nil || len(changes) != 3 || changes[2] != nil {
				t.Errorf("got health %v and the changes %v, want none out", err, changes)
			}
		})
	}
}

// A node that no key belongs to any more is not out.
func TestNodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newCluster(t)
		st := newStore(t, inner, store.FailClosed, failure.Options{Watch: true})
		inner.set(map[int]error{80: errDown})
		if a, err := apply(t, st, rule.Take, store.Charge{Limit: bind(t, ten), Key: "c", Cost: 1}); err != nil || a.Flags != rule.FallbackClosed {
			t.Fatalf("got %+v, %v", a, err)
		}
		testkit.Pass(3 * time.Second)
		if err := st.Health(); !errors.Is(err, errDown) {
			t.Errorf("got %v, want a node that is out", err)
		}
		inner.mu.Lock()
		inner.size = 2
		inner.mu.Unlock()
		testkit.Pass(time.Second)
		if a, err := apply(t, st, rule.Take, store.Charge{Limit: bind(t, ten), Key: "c", Cost: 1}); err != nil || a.Flags != 0 || st.Health() != nil {
			t.Errorf("the node is gone: got %+v, %v, %v", a, err, st.Health())
		}
	})
}

// Watch finds a node that is out although no request was ever sent to it.
func TestWatchNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newCluster(t)
		st := newStore(t, inner, store.FailClosed, failure.Options{Watch: true})
		testkit.Pass(time.Second)
		inner.set(map[int]error{80: errDown})
		testkit.Pass(time.Second)
		if err := st.Health(); !errors.Is(err, errDown) {
			t.Errorf("got %v, want a node that is out", err)
		}
		inner.set(nil)
		testkit.Pass(time.Second)
		if err := st.Health(); err != nil {
			t.Errorf("got %v, want all nodes back", err)
		}
	})
}
