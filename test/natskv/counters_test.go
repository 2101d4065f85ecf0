package natskv_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
)

// Counters are not used; docs/decisions/0030-key-value-engines-by-compare-and-swap.md says why. These tests check its claims.

// counters is a stream of counters.
type counters struct{ conn *nats.Conn }

func newCounters(t testing.TB, url string) counters {
	t.Helper()
	config := jetstream.StreamConfig{Name: "counters", Subjects: []string{"counters.>"}, AllowMsgCounter: true, MaxMsgsPerSubject: 1, AllowDirect: true}
	kit.Must(jetStream(t, url).CreateStream(context.Background(), config))(t)
	return counters{natstest.Connect(t, url)}
}

// add adds to a counter, and returns its new value.
func (c counters) add(name string, n int64) (int64, error) {
	msg := nats.NewMsg("counters." + name)
	msg.Header.Set("Nats-Incr", fmt.Sprintf("%+d", n))
	answer, err := c.conn.RequestMsg(msg, patience)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Val   string
		Error *jetstream.APIError
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, err
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return strconv.ParseInt(ack.Val, 10, 64)
}

// take adds a cost, and subtracts it again if the sum exceeds the quota, as a limiter over counters does. It calls between before it
// subtracts.
func (c counters) take(name string, cost, quota int64, between func()) (bool, error) {
	shown, err := c.add(name, cost)
	if err != nil || shown <= quota {
		return err == nil, err
	}
	if between != nil {
		between()
	}
	_, err = c.add(name, -cost)
	return false, err
}

// Of two concurrent requests that do not fit together, a limiter over counters can refuse both, which no order of the two explains:
// if 5 of 10 are used, and the requests cost 6 and 5, the second one fits in either order.
func TestCountersRefuseBoth(t *testing.T) {
	t.Parallel()
	c := newCounters(t, natstest.Start(t))
	kit.Must(c.add("key", 5))(t)
	var second bool
	first := kit.Must(c.take("key", 6, 10, func() { second = kit.Must(c.take("key", 5, 10, nil))(t) }))(t)
	if first || second {
		t.Errorf("the requests got %v and %v: counters have become better than the decision says", first, second)
	}
	if left := kit.Must(c.add("key", 0))(t); left != 5 {
		t.Errorf("the counter shows %d, want 5", left)
	}
}

// Counters cannot expire one by one, and a stream of them cannot reject a value above a maximum.
func TestCountersCannotExpire(t *testing.T) {
	t.Parallel()
	js := jetStream(t, natstest.Start(t))
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"ttl":     func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"discard": func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardNew, 1<<20 },
	} {
		config := jetstream.StreamConfig{Name: name, AllowMsgCounter: true, MaxMsgsPerSubject: 1}
		change(&config)
		var refused *jetstream.APIError
		if _, err := js.CreateStream(t.Context(), config); !errors.As(err, &refused) {
			t.Errorf("%s: got error %v: counters can now do what the decision page says they cannot", name, err)
		}
	}
}

// BenchmarkCounters compares a decision by a counter with one by a swap, for one key.
func BenchmarkCounters(b *testing.B) {
	node := natstest.StartNode(b)
	c := newCounters(b, node.URL())
	engine := open(b, node.URL(), natskv.Options{})
	st := newStore(b, engine, nil)
	limit := kit.Must(adapter.Bind("bench", slidegate.Limit{Name: "l", Quota: 1 << 40, Window: time.Hour}))(b)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("counter/%d", callers), func(b *testing.B) {
			runCallers(b, callers, func() error { _, err := c.take("key", 1, 1<<40, nil); return err })
		})
		b.Run(fmt.Sprintf("swap/%d", callers), func(b *testing.B) {
			runCallers(b, callers, func() error { _, err := take(st, limit, "key", 1); return err })
		})
	}
}

// runCallers runs callers that decide b.N times in all.
func runCallers(b *testing.B, callers int, decide func() error) {
	b.Helper()
	var (
		wait sync.WaitGroup
		next atomic.Int64
	)
	for range callers {
		wait.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := decide(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}
