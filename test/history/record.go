package history

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Limits are the limits of histories: windows in several parts and in one, which some stores decide by separate paths,
// a log, and slots. Their windows pass several times in a history.
var Limits = []slidegate.Limit{
	{Name: "parts", Quota: 12, Window: time.Second, Segments: 4},
	{Name: "pair", Quota: 8, Window: time.Second, Segments: 1},
	{Name: "log", Quota: 6, Window: time.Second, Algorithm: slidegate.SlidingLog},
	{Name: "slots", Quota: 3, Window: time.Second, Algorithm: rule.InFlight},
}

// isLog reports whether a limit is checked by the times of its admissions instead of by the model.
func isLog(limit int) bool { return Limits[limit].Algorithm == slidegate.SlidingLog }

// isSlots reports whether a limit is an in-flight limit.
func isSlots(limit int) bool { return Limits[limit].Algorithm == rule.InFlight }

// bound returns the bound limits.
func bound() (all []*store.Limit, err error) {
	for _, limit := range Limits {
		b, err := adapter.Bind("history", limit)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

const (
	callersPerProcess = 2                      // concurrent, per process
	callTimeout       = 300 * time.Millisecond // how long a caller waits for an answer
)

// Task is the work of one process. It can be encoded as JSON.
type Task struct {
	Seed  uint64
	Until int64 // when to end, in nanoseconds since the epoch
	First int   // the first of its keys
	Keys  int
}

// Event is one request of a history, or a time at which everything was forgotten. It can be encoded as JSON.
type Event struct {
	Client       int
	Limit, Key   int // the index of the limit in Limits
	Op           rule.Op
	Cost         int64
	ID           rule.ID // the owner of the slot, for in-flight limits
	Call, Return int64   // nanoseconds since the epoch
	Known        bool    // whether it was answered; if not, it may or may not have been carried out
	Answer       rule.Answer
	Forget       bool // not a request: all keys are forgotten between Call and Return
}

// Record sends random requests to a store until the order's end, and returns the answers. After a request that was not
// answered it waits until the server is alive: unanswered requests prove nothing.
func Record(store store.Store, alive func(context.Context) error, order Task) ([]Event, error) {
	limits, err := bound()
	if err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex
		wait   sync.WaitGroup
		events []Event
	)
	for i := range callersPerProcess {
		a := &recorder{store, alive, order, rand.New(rand.NewPCG(order.Seed, uint64(i))), limits}
		wait.Go(func() {
			seen := a.sendUntilEnd()
			mu.Lock()
			defer mu.Unlock()
			events = append(events, seen...)
		})
	}
	wait.Wait()
	return events, nil
}

type recorder struct {
	store  store.Store
	alive  func(context.Context) error
	order  Task
	random *rand.Rand
	limits []*store.Limit
}

func (a *recorder) ended() bool { return time.Now().UnixNano() >= a.order.Until }

func (a *recorder) sendUntilEnd() (events []Event) {
	for !a.ended() {
		e := a.draw()
		a.send(&e)
		events = append(events, e)
		if !e.Known {
			a.awaitServer()
		}
	}
	return events
}

func (a *recorder) draw() Event {
	e := Event{Key: a.order.First + a.random.IntN(a.order.Keys), Limit: a.random.IntN(len(Limits)), Cost: 1 + a.random.Int64N(3)}
	if isSlots(e.Limit) {
		e.Cost, e.ID = 1, rule.ID(1+a.random.IntN(maxSlots))
		e.Op = []rule.Op{rule.Take, rule.Take, rule.Take, rule.Renew, rule.GiveBack, rule.GiveBack, rule.Peek}[a.random.IntN(7)]
		return e
	}
	if isLog(e.Limit) {
		return e // only takes, so that admissions can be counted by their times
	}
	switch a.random.IntN(20) {
	case 0, 1:
		e.Op = rule.Peek
	case 2:
		e.Op = rule.Charge
	case 3, 4:
		e.Op = rule.GiveBack
	}
	return e
}

func (a *recorder) send(e *Event) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	batch := []store.Request{a.request(e)}
	e.Call = time.Now().UnixNano()
	err := a.store.Apply(ctx, batch)
	e.Return = time.Now().UnixNano()
	if err == nil {
		e.Known, e.Answer = true, batch[0].Answers[0]
	}
}

// request returns the store request of an event.
func (a *recorder) request(e *Event) store.Request {
	charge := store.Charge{Limit: a.limits[e.Limit], Key: keyName(e.Key), Cost: e.Cost, At: rule.Oldest}
	if isSlots(e.Limit) {
		charge.At = 1 // the slot of the ID, not the oldest
	}
	return store.Request{Op: e.Op, ID: e.ID, Charges: []store.Charge{charge}, Answers: make([]rule.Answer, 1)}
}

// keyName returns the name of a key.
func keyName(key int) string { return string(rune('a' + key)) }

func (a *recorder) awaitServer() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !a.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		err := a.alive(ctx)
		cancel()
		if err == nil {
			return
		}
		<-tick.C
	}
}
