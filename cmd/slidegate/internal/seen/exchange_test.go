package seen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// countedBoard is a board that counts what is posted and can be down.
type countedBoard struct {
	store.Board
	posts atomic.Int64
	down  atomic.Bool
}

var errDown = errors.New("down")

func (b *countedBoard) Post(ctx context.Context, topic, author string, text []byte, life time.Duration) error {
	if b.down.Load() {
		return errDown
	}
	b.posts.Add(1)
	return b.Board.Post(ctx, topic, author, text, life)
}

func (b *countedBoard) Notes(ctx context.Context, topic string) (map[string][]byte, error) {
	if b.down.Load() {
		return nil, errDown
	}
	return b.Board.Notes(ctx, topic)
}

// cluster is several instances that share a store.
type cluster struct {
	board     *countedBoard
	records   []*Record
	exchanges []*Exchange
	stops     []func()
	share     func(key string) float64 // what a peek returns; below 0 if no limit decides about the key; nil means that the store does not say
}

// newCluster runs instances until the test ends.
func newCluster(t *testing.T, instances int) *cluster {
	st := memstore.NewDefault()
	c := &cluster{board: &countedBoard{Board: st}}
	for i := range instances {
		r := NewRecord(time.Now)
		e := NewExchange(r, Options{
			Board: c.board, Now: time.Now,
			Instance:  func() Instance { return Instance{Name: fmt.Sprint("host:", i), Health: "ready"} },
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
			Secret: func(context.Context) []byte { return []byte("shared") },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		stop := func() { cancel(); <-done }
		t.Cleanup(stop)
		c.records, c.exchanges, c.stops = append(c.records, r), append(c.exchanges, e), append(c.stops, stop)
	}
	return c
}

func (c *cluster) add(instance, times int, key string, e *Event) {
	for range times {
		c.records[instance].Policy("api").Add(key, e)
	}
}

// TestOneLookShowsAllInstances: what three instances have seen is added up exactly, after one request to any of them.
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
			t.Errorf("got %+v, want the counts of two minutes: the earlier ones are in the notes of the hour", m)
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
		testkit.Pass(aliveFor + turnEvery)
		d = c.exchanges[0].Document(t.Context(), 20)
		if p := d.Policies[0]; p.LeasesOut != 20 || p.HoldsOut != 6 || p.Waiting != 14 || len(d.Instances) != 3 {
			t.Errorf("got %+v, want what two instances have out", p)
		}
	})
}

// TestGlanceDoesNotWait: the first look shows this instance at once, and all of them two seconds later, exactly.
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

// TestNothingIsWrittenWhileNobodyLooks: notes are posted only while someone is looking, and for some seconds after.
func TestNothingIsWrittenWhileNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.add(0, 1000, "ann", refusal())
		testkit.Pass(time.Minute)
		if n := c.board.posts.Load(); n != 0 {
			t.Fatalf("got %d posts, want none", n)
		}
		c.exchanges[0].Document(t.Context(), 20)
		testkit.Pass(lookLife + lookEvery + 2*time.Second)
		written := c.board.posts.Load()
		testkit.Pass(time.Hour)
		if n := c.board.posts.Load(); written == 0 || n != written {
			t.Errorf("got %d posts for one look, and %d an hour later; want some, and no more", written, n)
		}
	})
}

// TestInstanceThatEnds: it is shown as gone within five seconds of its last note.
func TestInstanceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(1, 3, "ann", refusal())
		c.exchanges[0].Document(t.Context(), 20)
		c.stops[1]()
		for range 6 {
			testkit.Pass(time.Second)
			c.exchanges[0].Document(t.Context(), 20)
		}
		d := c.exchanges[0].Document(t.Context(), 20)
		if len(d.Instances) != 2 || d.Instances[1].Alive || d.Keys["5"].Refused[0].Refused != 3 {
			t.Errorf("got %+v, want one that is gone, with what it had seen", d.Instances)
		}
		for range 10 * 60 {
			testkit.Pass(time.Second)
			d = c.exchanges[0].Document(t.Context(), 20)
		}
		if len(d.Instances) != 1 {
			t.Errorf("got %+v ten minutes later, want only the other", d.Instances)
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
		c.board.down.Store(true)
		testkit.Pass(2 * time.Second)
		d := c.exchanges[0].Document(t.Context(), 20)
		if d.Scope != "this" || d.Why == "" || len(d.Instances) != 1 || d.Keys["5"].Refused[0].Refused != 2 {
			t.Errorf("got %s %q %+v, want this instance alone and why", d.Scope, d.Why, d.Keys["5"])
		}
		c.board.down.Store(false)
		testkit.Pass(2 * time.Second)
		if d = c.exchanges[0].Document(t.Context(), 20); d.Scope != "all" || d.Keys["5"].Refused[0].Refused != 5 {
			t.Errorf("got %s %+v, want both", d.Scope, d.Keys["5"])
		}
	})
}

// TestSumsBeyondTheLists: an instance with more keys than it posts says what it knows of the keys that are shown, so that their counts
// are exact.
func TestSumsBeyondTheLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(0, 500, "ann", refusal())
		c.add(1, 1, "ann", refusal())
		for i := range 2000 { // above ann in the other instance's list
			c.add(1, 2, fmt.Sprint("other", i), refusal())
		}
		d := c.exchanges[0].Document(t.Context(), 20)
		if k := d.Keys["5"].Refused[0]; k.Refused != 501 || k.AtLeast {
			t.Errorf("got %+v, want exactly 501", k)
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
		if len(near) != 1 || near[0].ID != idOf([]byte("shared"), "api", "still") || near[0].Share != 0.9 || near[0].Limit != "100/1m" || near[0].Admitted != 1 {
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

// TestKeyOfAnotherInstance: the text of a key comes from the instance that knows it, only on request, and no other instance can make one up.
func TestKeyOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		secretKey := "secret \xff key"
		c.add(2, 3, secretKey, refusal())
		id := c.exchanges[0].Document(t.Context(), 20).Keys["1"].Refused[0].ID
		for _, topic := range []string{topicLook, topicSeen, topicHour, topicKey} {
			notes, _ := c.board.Notes(t.Context(), topic)
			for author, text := range notes {
				var plain any
				if _ = decode(text, &plain); bytes.Contains(fmt.Append(nil, plain), []byte("secret ")) {
					t.Errorf("%s of %s has a key: %v", topic, author, plain)
				}
			}
		}
		forged, _ := encode(&answer{[]answerKey{{keyName{"api", id}, []byte("forged")}}})
		if err := c.board.Board.Post(t.Context(), topicKey, "forger", forged, time.Minute); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if key, ok := c.exchanges[0].Key(t.Context(), "api", id); !ok || key != secretKey || time.Since(began) > 2*time.Second {
			t.Errorf("got %q, %v after %v, want the key", key, ok, time.Since(began))
		}
		if key, ok := c.exchanges[2].Key(t.Context(), "api", id); !ok || key != secretKey {
			t.Errorf("where it was seen: got %q, %v", key, ok)
		}
		unknown := idOf([]byte("shared"), "api", "unknown")
		for _, bad := range []keyName{{"api", unknown}, {"other", id}, {"api", "no id"}} {
			if key, ok := c.exchanges[0].Key(t.Context(), bad.Policy, bad.ID); ok {
				t.Errorf("%v: got %q, want none", bad, key)
			}
		}
		testkit.Pass(noteLife + 2*time.Second)
		if notes, _ := c.board.Notes(t.Context(), topicKey); len(notes) > 1 { // the forged one
			t.Errorf("got %d notes with keys, want none any more", len(notes))
		}
	})
}

// TestUnchangedNotesAreNotReadAgain: a note that makes work is read once, and again only if it changes.
func TestUnchangedNotesAreNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		post := func(keys int) {
			text, _ := encodeNote(someNote(1, keys, minuteOf(time.Now())))
			if err := c.board.Post(t.Context(), topicSeen, "other", text, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		e := c.exchanges[0]
		post(3)
		e.Document(t.Context(), 20)
		first := e.sources["other"].note
		first.Turn-- // so that it would be taken as a later one
		e.Document(t.Context(), 20)
		testkit.Pass(turnEvery)
		if e.sources["other"].note != first {
			t.Error("a note that has not changed was read again")
		}
		post(4)
		testkit.Pass(turnEvery)
		if n := e.sources["other"].note; n == first || len(n.Keys) != 4 {
			t.Error("a note that has changed was not read")
		}
	})
}

// TestHostileAuthorsAreBounded: notes of as many instances as a store holds are shown without harm to the others.
func TestHostileAuthorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(1, 3, "ann", refusal())
		for i := range store.MaxNotes - 3 {
			text := []byte("rubbish")
			if i%2 == 0 {
				text, _ = encodeNote(someNote(2, 300, minuteOf(time.Now())))
			}
			if err := c.board.Post(t.Context(), topicSeen, fmt.Sprint("evil", i), text, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		d := c.exchanges[0].Document(t.Context(), 20)
		found := false
		for _, i := range d.Instances {
			found = found || i.Name == "host:1" && i.Alive
		}
		if !found || len(d.Instances) > store.MaxNotes+1 || len(d.Keys["60"].Refused) > 20 {
			t.Errorf("got %d instances, %v, want the other one among them", len(d.Instances), found)
		}
	})
}
