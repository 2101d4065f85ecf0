package redisstore

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// What a process does whose history is checked: it asks at random and notes what it was answered and when.

// historyOrder is what it is told.
type historyOrder struct {
	Seed  uint64
	Until int64 // when to end, in nanoseconds since the epoch
	Keys  int
}

// event is one request of a history.
type event struct {
	Client       int
	Log          bool // of the sliding log, else of the sliding window
	Key          int
	Op           slidegate.Op
	Cost         int64
	Call, Return int64 // nanoseconds since the epoch
	Known        bool  // whether it was answered; if not, it may have been carried out or not
	Answer       slidegate.Answer
}

const (
	historyAskers  = 2 // at once in each process
	historyPatient = 300 * time.Millisecond
)

// historyWindow and historyLog are the limits that histories are of. Their windows pass several times in a history.
var (
	historyWindow = slidegate.Limit{Name: "window", Quota: 12, Window: time.Second, Segments: 4}
	historyLog    = slidegate.Limit{Name: "log", Quota: 6, Window: time.Second, Algorithm: slidegate.SlidingLog}
)

func historyJob(client rueidis.Client, store *Store, line string) (events []event, err error) {
	var order historyOrder
	if err := json.Unmarshal([]byte(line), &order); err != nil {
		return nil, err
	}
	var (
		mu   sync.Mutex
		wait sync.WaitGroup
	)
	for i := range historyAskers {
		asker, err := newAsker(client, store, order, i)
		if err != nil {
			return nil, err
		}
		wait.Go(func() {
			seen := asker.askUntilEnd()
			mu.Lock()
			defer mu.Unlock()
			events = append(events, seen...)
		})
	}
	wait.Wait()
	return events, nil
}

type asker struct {
	client      rueidis.Client
	store       *Store
	order       historyOrder
	random      *rand.Rand
	window, log *slidegate.BoundLimit
}

func newAsker(client rueidis.Client, store *Store, order historyOrder, i int) (*asker, error) {
	window, err := slidegate.Bind("history", historyWindow)
	if err != nil {
		return nil, err
	}
	log, err := slidegate.Bind("history", historyLog)
	if err != nil {
		return nil, err
	}
	return &asker{client, store, order, rand.New(rand.NewPCG(order.Seed, uint64(i))), window, log}, nil
}

func (a *asker) ended() bool { return time.Now().UnixNano() >= a.order.Until }

func (a *asker) askUntilEnd() (events []event) {
	for !a.ended() {
		e := a.draw()
		a.ask(&e)
		events = append(events, e)
		if !e.Known {
			a.awaitServer()
		}
	}
	return events
}

func (a *asker) draw() event {
	e := event{Key: a.random.IntN(a.order.Keys), Log: a.random.IntN(4) == 0, Cost: 1 + a.random.Int64N(3)}
	if e.Log {
		return e // takes only: so that what was admitted can be counted by its times
	}
	switch a.random.IntN(20) {
	case 0, 1:
		e.Op = slidegate.OpPeek
	case 2:
		e.Op = slidegate.OpCharge
	case 3, 4:
		e.Op = slidegate.OpGiveBack
	}
	return e
}

func (a *asker) ask(e *event) {
	limit := a.window
	if e.Log {
		limit = a.log
	}
	ctx, cancel := context.WithTimeout(context.Background(), historyPatient)
	defer cancel()
	e.Call = time.Now().UnixNano()
	answer, err := try(ctx, a.store, e.Op, slidegate.Charge{Limit: limit, Key: historyKey(e.Key), Cost: e.Cost, At: rule.Oldest})
	e.Return = time.Now().UnixNano()
	if err == nil {
		e.Known, e.Answer = true, answer
	}
}

func historyKey(i int) string { return string(rune('a' + i)) }

// awaitServer waits until the server can be reached again: requests that nobody answers say nothing.
func (a *asker) awaitServer() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !a.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), historyPatient)
		err := a.client.Do(ctx, a.client.B().Ping().Build()).Error()
		cancel()
		if err == nil {
			return
		}
		<-tick.C
	}
}
