// Package race has several processes send requests for the same keys at the same time. A store admits exactly the quota of each.
package race

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/workers"
)

const (
	Quota     = 50  // of a key
	Processes = 4   // as many as should race
	Requests  = 200 // for a key, concurrent, of all processes

	patience = 30 * time.Second
)

// limits are limits that admit the same number at any time.
var limits = []slidegate.Limit{
	{Name: "window", Quota: Quota, Window: time.Hour, Anchor: slidegate.AnchorFirst},
	{Name: "log", Quota: Quota, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	{Name: "fixed", Quota: Quota, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
	{Name: "parts", Quota: Quota, Window: time.Hour, Segments: 60, Anchor: slidegate.AnchorFirst},
	{Name: "default", Quota: Quota, Window: time.Hour},
	{Name: "refused", Quota: Quota, Window: time.Hour, Algorithm: slidegate.SlidingLog, CountRefused: true},
	{Name: "slots", Quota: Quota, Window: time.Hour, Algorithm: rule.InFlight},
}

// order is the work of a process in one round.
type order struct {
	Limit    int // the index in limits
	Keys     []string
	Requests int       // for each key
	Together bool      // whether concurrent requests are combined into one call
	Start    time.Time // of all processes
}

// Exact makes all processes send requests for new keys at the same time, in rounds, and fails the test unless they admit exactly the quota
// of every key, every time. In half of the rounds there are four keys and requests are combined, if together is true.
func Exact(t *testing.T, processes []*workers.Worker, rounds int, together bool) {
	t.Helper()
	for round := range rounds {
		key := fmt.Sprintf("round-%d", round)
		order := order{Keys: []string{key}, Requests: Requests / len(processes)}
		if order.Limit = round % len(limits); together {
			order.Limit = round / 2 % len(limits)
		}
		if together && round%2 == 1 {
			order.Keys, order.Together = []string{key + "-a", key + "-b", key + "-c", key + "-d"}, true
		}
		order.Start = time.Now().Add(10 * time.Millisecond)
		for _, p := range processes {
			p.Send(t, order)
		}
		total := make([]int64, len(order.Keys))
		for _, admitted := range workers.ReceiveAll[[]int64](t, processes) {
			for i, n := range admitted {
				total[i] += n
			}
		}
		for _, n := range total {
			if n != Quota {
				t.Errorf("%s: got %d of %d requests admitted, of a quota of %d", limits[order.Limit].Name, n, Requests, Quota)
			}
		}
	}
}

// Job returns what a process does in a race: it carries out orders, and returns how many requests were admitted for each key.
func Job(st store.Store) func(text []byte) (any, error) {
	return func(text []byte) (any, error) {
		var o order
		if err := json.Unmarshal(text, &o); err != nil {
			return nil, err
		}
		limit, err := adapter.Bind("race", limits[o.Limit])
		if err != nil {
			return nil, err
		}
		over := st
		if o.Together {
			over = coalesce.New(st, coalesce.Options{InFlight: 2, Timeout: patience})
		}
		admitted := make([]int64, len(o.Keys))
		<-time.After(time.Until(o.Start)) // all processes begin then
		_, err = Concurrently(o.Requests*len(o.Keys), func(i int) (int64, error) {
			key := i % len(o.Keys)
			granted, err := Take(over, store.Charge{Limit: limit, Key: o.Keys[key], Cost: 1})
			atomic.AddInt64(&admitted[key], granted)
			return granted, err
		})
		return admitted, err
	}
}

// Concurrently calls a function many times concurrently, and adds up the results.
func Concurrently(n int, do func(i int) (int64, error)) (int64, error) {
	var (
		sum   atomic.Int64
		wait  sync.WaitGroup
		start = make(chan struct{})
		errs  = make([]error, n)
	)
	for i := range n {
		wait.Go(func() {
			<-start
			got, err := do(i)
			sum.Add(got)
			errs[i] = err
		})
	}
	close(start)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return sum.Load(), nil
}

// Take sends charges in one request, with a new ID for a slot, and returns what the first charge was granted.
func Take(st store.Store, charges ...store.Charge) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers := make([]rule.Answer, len(charges))
	err := st.Apply(ctx, []store.Request{{Op: rule.Take, ID: rule.ID(rand.Uint64()), Charges: charges, Answers: answers}})
	return answers[0].Granted, err
}
