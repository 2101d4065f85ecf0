package seen

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// countedDocuments counts what is read and written, and can be down.
type countedDocuments struct {
	store.Documents
	loads, swaps atomic.Int64
	down         atomic.Bool
}

var errDown = errors.New("down")

func (d *countedDocuments) LoadDocument(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	if d.down.Load() {
		return nil, 0, errDown
	}
	d.loads.Add(1)
	return d.Documents.LoadDocument(ctx, name, known)
}

func (d *countedDocuments) SwapDocument(ctx context.Context, name string, text []byte, revision uint64) (uint64, error) {
	if d.down.Load() {
		return 0, errDown
	}
	d.swaps.Add(1)
	return d.Documents.SwapDocument(ctx, name, text, revision)
}

// all returns what the documents of instances have, by name.
func (d *countedDocuments) all(t *testing.T) map[string][]byte {
	texts := map[string][]byte{}
	for number := range maxInstances {
		if text, _, err := d.Documents.LoadDocument(t.Context(), nameOf(number), 0); err != nil {
			t.Error(err)
		} else if text != nil {
			texts[nameOf(number)] = text
		}
	}
	return texts
}

var testSecret = []byte("0123456789abcdef0123456789abcdef")

// cluster is several instances that share a store.
type cluster struct {
	store     *countedDocuments
	records   []*Record
	exchanges []*Exchange
	stops     []func()
	share     func(key string) float64 // what a peek returns; below 0 if no limit decides about the key; nil means that the store does not say
	secrets   map[int][]byte           // of instances that have another one
}

// newCluster runs instances until the test ends.
func newCluster(t *testing.T, instances int) *cluster {
	c := &cluster{store: &countedDocuments{Documents: memstore.NewDefault()}}
	for range instances {
		c.start(t)
	}
	return c
}

// start runs another instance, half a second after those before.
func (c *cluster) start(t *testing.T) {
	testkit.Pass(turnEvery / 2)
	number := len(c.records)
	r := NewRecord(time.Now)
	e := NewExchange(r, Options{
		Documents: c.store, Now: time.Now,
		Instance:  func() Instance { return Instance{Name: fmt.Sprint("host:", number), Health: "ready"} },
		Policies:  func() []Policy { return []Policy{{Name: "api", Limits: []string{"100/1m"}, HoldsOut: 3, Waiting: 7}} },
		LeasesOut: func() map[string]int64 { return map[string]int64{"api": 10, "envoy:web": 1} },
		Peek: func(_ context.Context, _, key, _ string) (float64, *slidegate.Limit, error) {
			if c.share == nil {
				return 0, nil, errDown
			}
			if share := c.share(key); share >= 0 {
				return share, &limit, nil
			}
			return 0, nil, nil // no limit decides about it
		},
		Secret: func(context.Context) []byte {
			if other := c.secrets[number]; other != nil {
				return other
			}
			return testSecret
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	c.records, c.exchanges, c.stops = append(c.records, r), append(c.exchanges, e), append(c.stops, stop)
}

func (c *cluster) add(instance, times int, key string, e *Event) {
	for range times {
		c.records[instance].Policy("api").Add(key, e)
	}
}

// TestOneLookShowsAllInstances: what three instances have seen is added up, after one request to any of them.
func TestOneLookShowsAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i := range 3 {
			c.add(i, 10*(i+1), "ann", refusal())
			c.add(i, 5, "ann", admission())
			c.add(i, 1, fmt.Sprint("only ", i), refusal())
		}
		testkit.Pass(time.Hour / 2)
		c.add(0, 7, "bob", refusal())
		began := time.Now()
		d := c.exchanges[1].Document(t.Context(), 20)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v", took)
		}
		if d.Scope != "all" || d.Why != "" || len(d.Instances) != 3 || d.Instances[0].ID != d.Self || !d.Instances[2].Alive {
			t.Fatalf("got %s %q %+v, want three instances", d.Scope, d.Why, d.Instances)
		}
		hourly := d.Keys["60"].Refused
		if len(hourly) != 5 || hourly[0].Refused != 60 || hourly[0].Admitted != 15 || hourly[0].AtLeast || len(hourly[0].Instances) != 3 || hourly[0].Limit != "100/1m" || hourly[0].By != "limits" || hourly[0].Masked != "…" {
			t.Errorf("got %+v, want 60 refusals of ann first", hourly)
		}
		if last := d.Keys["5"].Refused; len(last) != 1 || last[0].Refused != 7 || last[0].AtLeast {
			t.Errorf("got %+v, want only bob in the last five minutes", last)
		}
		if m := d.Policies[0].Minutes; len(m) != 2 || m[0].Refused != 63 || m[0].Admitted != 15 || m[1].Refused != 7 {
			t.Errorf("got %+v, want the counts of two minutes", m)
		}
	})
}

// TestWhatIsOutOfAllInstances: what is leased and held is added up by policy, but not what an instance had out that is gone.
func TestWhatIsOutOfAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		d := c.exchanges[0].Document(t.Context(), 20)
		if p, i := d.Policies[0], d.Instances[1]; p.LeasesOut != 30 || p.HoldsOut != 9 || p.Waiting != 21 || i.LeasesOut != 11 {
			t.Errorf("got %+v, %+v, want 3 times 10 leased units and 3 requests, and at an instance also the unit of Envoy's domain", p, i)
		}
		c.stops[2]()
		for range quietReads + 1 {
			testkit.Pass(turnEvery)
			c.exchanges[0].Glance(t.Context(), 20)
		}
		d = c.exchanges[0].Document(t.Context(), 20)
		if p := d.Policies[0]; p.LeasesOut != 20 || p.HoldsOut != 6 || p.Waiting != 14 || len(d.Instances) != 3 {
			t.Errorf("got %+v, want what two instances have out", p)
		}
	})
}

// TestGlanceDoesNotWait: the first look shows this instance at once, and all of them three seconds later.
func TestGlanceDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i := range 3 {
			c.add(i, 10, "ann", refusal())
		}
		began := time.Now()
		if d := c.exchanges[0].Glance(t.Context(), 20); time.Since(began) != 0 || len(d.Instances) != 1 || d.Keys["1"].Refused[0].Refused != 10 {
			t.Errorf("got %+v after %v, want this instance at once", d.Instances, time.Since(began))
		}
		for range 3 {
			testkit.Pass(time.Second)
			c.exchanges[0].Glance(t.Context(), 20)
		}
		if d := c.exchanges[0].Glance(t.Context(), 20); len(d.Instances) != 3 || d.Keys["1"].Refused[0].Refused != 30 || d.Keys["1"].Refused[0].AtLeast {
			t.Errorf("got %+v, %+v; want 30 by three", d.Instances, d.Keys["1"])
		}
	})
}

// TestSumsAreLowerBounds: while three instances decide and two are looked at, the sums are never above what was decided and never fall, and
// what was decided is in them within four seconds. The same holds after one has ended and another has begun.
func TestSumsAreLowerBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		truth, last := []int64{0}, [2]int64{}
		seconds := func(n int, instances ...int) {
			for second := range n {
				for _, i := range instances {
					one := rand.IntN(4)
					c.add(i, one, "ann", refusal())
					truth = append(truth, truth[len(truth)-1]+int64(one))
				}
				testkit.Pass(time.Second)
				for i := range last {
					d := c.exchanges[i].Glance(t.Context(), 20)
					var sum, now int64
					for _, m := range d.Policies[0].Minutes {
						sum += m.Refused
					}
					if now = truth[len(truth)-1]; sum > now || sum < last[i] || second > 10 && sum < truth[len(truth)-1-3*4] {
						t.Fatalf("got %d after %d, want at most %d", sum, last[i], now)
					}
					if keys := d.Keys["60"].Refused; len(keys) > 0 && keys[0].Refused != sum {
						t.Errorf("got %d of the only key, want %d", keys[0].Refused, sum)
					}
					last[i] = sum
				}
			}
		}
		seconds(100, 0, 1, 2)
		c.stops[2]()
		c.start(t)
		c.start(t)
		seconds(100, 0, 3, 4)
	})
}

// TestNothingIsWrittenWhileNobodyLooks: instances write only while someone is looking and for some seconds after, and then nothing is left
// of what they have seen. Otherwise each reads every two seconds whether someone is.
func TestNothingIsWrittenWhileNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.add(0, 1000, "ann", refusal())
		testkit.Pass(time.Minute)
		if n := c.store.swaps.Load(); n != 0 {
			t.Fatalf("got %d writes, want none", n)
		}
		c.exchanges[0].Document(t.Context(), 20)
		if n := len(c.store.all(t)); n != 2 {
			t.Errorf("got %d documents, want those of the two others", n)
		}
		testkit.Pass(2*lookLife + lookEvery)
		written, read := c.store.swaps.Load(), c.store.loads.Load()
		testkit.Pass(time.Hour)
		if n := c.store.swaps.Load(); written == 0 || n != written {
			t.Errorf("got %d writes for one look, and %d an hour later; want some, and no more", written, n)
		}
		if n := c.store.loads.Load() - read; n > 3*3600/2+3 {
			t.Errorf("got %d reads in an hour, want one of each instance in two seconds", n)
		}
		for name, text := range c.store.all(t) {
			if !bytes.Equal(text, nothing) {
				t.Errorf("%s still has %d bytes", name, len(text))
			}
		}
	})
}

// TestInstanceThatEnds: it is shown as gone within eight seconds, what it has written is removed, and five minutes later it is not shown.
func TestInstanceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(1, 3, "ann", refusal())
		c.exchanges[0].Document(t.Context(), 20)
		c.stops[1]()
		for range 8 {
			testkit.Pass(time.Second)
			c.exchanges[0].Document(t.Context(), 20)
		}
		d := c.exchanges[0].Document(t.Context(), 20)
		if len(d.Instances) != 2 || d.Instances[1].Alive || d.Keys["5"].Refused[0].Refused != 3 {
			t.Errorf("got %+v, want one that is gone, with what it had seen", d.Instances)
		}
		if texts := c.store.all(t); len(texts) != 1 || !bytes.Equal(texts[nameOf(0)], nothing) {
			t.Errorf("got %d documents, want one that is empty", len(texts))
		}
		for range 6 * 60 {
			testkit.Pass(time.Second)
			d = c.exchanges[0].Document(t.Context(), 20)
		}
		if len(d.Instances) != 1 {
			t.Errorf("got %+v six minutes later, want only the other", d.Instances)
		}
	})
}

// TestInstanceThatEndedUnseen: what an instance has left that was killed while someone looked is not shown to those who look later.
func TestInstanceThatEndedUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.add(2, 3, "ann", refusal())
		c.exchanges[0].Document(t.Context(), 20)
		for _, stop := range c.stops[1:] {
			stop()
		}
		c.stops[0]() // the only one that could have removed it
		c.start(t)
		if d := c.exchanges[3].Document(t.Context(), 20); len(d.Instances) != 1 || len(d.Keys["60"].Refused) != 0 {
			t.Errorf("got %+v, want only the new instance", d.Instances)
		}
	})
}

// TestStoreThatIsAway: the instance shows itself and says so, and all of them when the store is back.
func TestStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(0, 2, "ann", refusal())
		c.add(1, 3, "ann", refusal())
		c.exchanges[0].Document(t.Context(), 20)
		c.store.down.Store(true)
		testkit.Pass(2 * time.Second)
		d := c.exchanges[0].Document(t.Context(), 20)
		if d.Scope != "this" || d.Why == "" || len(d.Instances) != 1 || d.Keys["5"].Refused[0].Refused != 2 {
			t.Errorf("got %s %q %+v, want this instance alone and why", d.Scope, d.Why, d.Keys["5"])
		}
		c.store.down.Store(false)
		testkit.Pass(2 * time.Second)
		if d = c.exchanges[0].Document(t.Context(), 20); d.Scope != "all" || d.Keys["5"].Refused[0].Refused != 5 {
			t.Errorf("got %s %+v, want both", d.Scope, d.Keys["5"])
		}
	})
}

// TestSumsBeyondTheLists: the count of a key that another instance may have seen too, but does not list, is marked as at least that.
func TestSumsBeyondTheLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(0, 500, "ann", refusal())
		c.add(1, 1, "ann", refusal())
		for i := range 2000 { // above ann in the other instance's list
			c.add(1, 2, fmt.Sprint("other", i), refusal())
		}
		d := c.exchanges[0].Document(t.Context(), 20)
		if k := d.Keys["5"].Refused[0]; k.Refused != 500 || !k.AtLeast {
			t.Errorf("got %+v, want at least 500", k)
		}
	})
}

// TestForgottenKeysAreMarked: once keys had to make room, the counts of new ones are marked, and only for windows that begin before that.
func TestForgottenKeysAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		for i := range 2 * MaxKeys {
			c.add(0, 1, fmt.Sprint("once", i), admission())
		}
		c.add(0, 40, "ann", refusal())
		if k := c.exchanges[0].Document(t.Context(), 20).Keys["1"].Refused[0]; k.Refused != 40 || !k.AtLeast {
			t.Errorf("got %+v, want at least 40", k)
		}
		testkit.Pass(10 * time.Minute)
		c.add(0, 2, "ann", refusal())
		keys := c.exchanges[0].Document(t.Context(), 20).Keys
		if k := keys["1"].Refused[0]; k.Refused != 2 || k.AtLeast {
			t.Errorf("ten minutes later: got %+v, want exactly 2 in the last minute", k)
		}
		if k := keys["60"].Refused[0]; k.Refused != 42 || !k.AtLeast {
			t.Errorf("ten minutes later: got %+v, want at least 42 in the last hour", k)
		}
	})
}

// TestNearestKeysAreAskedAgain: a key is near only while the store says so, and not if it was refused.
func TestNearestKeysAreAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		for _, key := range []string{"still", "freed", "refused"} {
			c.add(1, 1, key, &Event{Limit: &limit, Remaining: 5})
		}
		c.add(1, 1, "far", &Event{Limit: &limit, Remaining: 50})
		c.add(1, 1, "refused", refusal())
		c.share = func(key string) float64 { return map[string]float64{"still": 0.9, "freed": 0.3, "refused": 1}[key] }
		near := c.exchanges[0].Document(t.Context(), 20).Keys["1"].Nearest
		if len(near) != 1 || near[0].ID != idOf(testSecret, "api", "still") || near[0].Share != 0.9 || near[0].Limit != "100/1m" || near[0].Admitted != 1 {
			t.Errorf("got %+v, want one key at 0.9 of 100/1m", near)
		}
	})
}

// TestNearestListIsFull: keys that are near no longer, as after a reset, leave their places to the next ones at once. The store is asked for
// a bounded number of keys at a time.
func TestNearestListIsFull(t *testing.T) {
	for _, test := range []struct{ reset, want int }{{13, listed}, {maxPeeks - 2*listed, listed}, {maxPeeks, 0}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1)
			for i := range test.reset {
				c.add(0, 1, fmt.Sprint("reset ", i), &Event{Limit: &limit, Remaining: 1})
			}
			for i := range 2 * listed {
				c.add(0, 1, fmt.Sprint("near ", i), &Event{Limit: &limit, Remaining: 10})
			}
			var asked atomic.Int64
			c.share = func(key string) float64 {
				if asked.Add(1); strings.HasPrefix(key, "reset") {
					return 0
				}
				return 0.9
			}
			near := c.exchanges[0].Document(t.Context(), listed).Keys["1"].Nearest
			if n := asked.Load(); len(near) != test.want || n > maxPeeks || n < int64(test.reset) {
				t.Errorf("%d were reset: got %d keys for %d questions, want %d keys", test.reset, len(near), n, test.want)
			}
			if near := c.exchanges[0].Document(t.Context(), listed).Keys["1"].Nearest; len(near) != listed {
				t.Errorf("%d were reset: got %d keys at the second look, want %d", test.reset, len(near), listed)
			}
		})
	}
}

// TestKeyOfAnotherInstance: the text of a key comes from the instance that lists it, also if nobody has looked before, and nobody can read it in
// the store.
func TestKeyOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		secretKey := "secret \xff key"
		c.add(2, 3, secretKey, refusal())
		id := c.exchanges[0].Document(t.Context(), 20).Keys["1"].Refused[0].ID
		texts := c.store.all(t)
		for name, text := range texts {
			if plain, _ := io.ReadAll(flate.NewReader(bytes.NewReader(text[12:]))); bytes.Contains(text, []byte("secret ")) || bytes.Contains(plain, []byte("secret ")) || bytes.Contains(text, []byte("host:")) {
				t.Errorf("%s can be read", name)
			}
		}
		if len(texts) != 2 {
			t.Errorf("got %d documents, want two", len(texts))
		}
		for i, e := range c.exchanges { // nobody looks at the second one
			if key, ok := e.Key(t.Context(), "api", id); !ok || key != secretKey {
				t.Errorf("of instance %d: got %q, %v, want the key", i, key, ok)
			}
		}
		unknown := idOf(testSecret, "api", "unknown")
		for _, bad := range [][2]string{{"api", unknown}, {"other", id}, {"api", "no id"}} {
			if key, ok := c.exchanges[0].Key(t.Context(), bad[0], bad[1]); ok {
				t.Errorf("%v: got %q, want none", bad, key)
			}
		}
	})
}

// TestOtherSecret: an instance that has another secret is not shown, and the others say so.
func TestOtherSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.secrets = map[int][]byte{2: []byte("another secret of thirty-two by.")}
		c.add(1, 3, "ann", refusal())
		c.add(2, 3, "ann", refusal())
		d := c.exchanges[0].Document(t.Context(), 20)
		if len(d.Instances) != 2 || d.Scope != "all" || !strings.HasPrefix(d.Why, "1 other instance") || d.Keys["1"].Refused[0].Refused != 3 {
			t.Errorf("got %+v, %q, want two instances, and why the third is missing", d.Instances, d.Why)
		}
	})
}

// TestForgedDocuments: what others write into the documents neither harms what is shown nor takes much memory, and is written over.
func TestForgedDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i := range 3 {
			c.add(i, 3, "ann", refusal())
		}
		forge := func(name string, text []byte) {
			_, revision, err := c.store.LoadDocument(t.Context(), name, 0)
			if err == nil {
				_, err = c.store.SwapDocument(t.Context(), name, text, revision)
			}
			if err != nil {
				t.Error(err)
			}
		}
		ids := strings.Repeat(`"forged",`, 10*maxInstances)
		for _, text := range []string{"", "rubbish", `{"looks":7,"ids":null}`, `{"looks":-1}`, `{"looks":1,"ids":[` + ids + `"x"]}`, `{"looks":1,"ids":["` + c.exchanges[1].id + `","","x"]}`} {
			c.exchanges[0].Document(t.Context(), 20)
			forge(indexName, []byte(text))
			for number := range maxInstances {
				forge(nameOf(number), bytes.Repeat([]byte(text+"."), 5))
			}
			for range 6 {
				testkit.Pass(time.Second)
				c.exchanges[0].Glance(t.Context(), 20)
			}
			d := c.exchanges[0].Glance(t.Context(), 20)
			if k := d.Keys["60"].Refused; len(d.Instances) != 3 || !d.Instances[1].Alive || !d.Instances[2].Alive || len(k) != 1 || k[0].Refused != 9 {
				t.Errorf("after %.30q: got %+v, %+v, want the three", text, d.Instances, k)
			}
			if n := len(c.exchanges[0].sources); n > 2*maxInstances {
				t.Errorf("got %d sources", n)
			}
			testkit.Pass(time.Minute)
		}
	})
}

// TestMoreInstancesThanNumbers: those for which there is no room are not shown, and the others are.
func TestMoreInstancesThanNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, maxInstances+5)
		c.exchanges[0].Document(t.Context(), 20)
		testkit.Pass(5 * time.Second)
		if n := len(c.exchanges[0].Glance(t.Context(), 20).Instances); n < maxInstances || n > maxInstances+1 {
			t.Errorf("got %d instances, want %d", n, maxInstances)
		}
	})
}
