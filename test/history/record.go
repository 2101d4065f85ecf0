package history

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Limits are those that histories are of: windows in several parts and in one, which some stores decide in ways of their own,
// a log, and slots. Their windows pass several times in a history.
var Limits = []slidegate.Limit{
	{Name: "parts", Quota: 12, Window: time.Second, Segments: 4},
	{Name: "pair", Quota: 8, Window: time.Second, Segments: 1},
	{Name: "log", Quota: 6, Window: time.Second, Algorithm: slidegate.SlidingLog},
	{Name: "slots", Quota: 2, Window: time.Second, Algorithm: rule.InFlight},
}

// isLog tells whether a limit is checked by the times of its admissions instead of by the model.
func isLog(limit int) bool { return Limits[limit].Algorithm == slidegate.SlidingLog }

// isSlots reports whether a limit is checked by the model of slots.
func isSlots(limit int) bool { return Limits[limit].Algorithm == rule.InFlight }

// bound returns the limits as stores take them.
func bound() (all []*store.Limit, err error) {
	for _, limit := range Limits {
		b, err := slidegate.Bind("history", limit)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

const (
	askers  = 2                      // at once in each process
	patient = 300 * time.Millisecond // how long one of them waits for an answer
)

// Order is what a process is told to do. It can be encoded as JSON.
type Order struct {
	Seed  uint64
	Until int64 // when to end, in nanoseconds since the epoch
	Keys  int
}

// Event is one request of a history, or the moment at which everything was forgotten. It can be encoded as JSON.
type Event struct {
	Client       int
	Limit, Key   int // the place of the limit in Limits
	Op           rule.Op
	Cost         int64
	ID           rule.ID // of a slot
	Call, Return int64   // nanoseconds since the epoch
	Known        bool    // whether it was answered; if not, it may have been carried out or not
	Answer       rule.Answer
	Forget       bool // no request: all that is known of all keys is forgotten between Call and Return
}

// Record asks a store at random until the order's end, and returns what it was answered. After a request that was not
// answered it waits until the server is alive: what nobody answers says nothing.
func Record(store store.Store, alive func(context.Context) error, order Order) ([]Event, error) {
	limits, err := bound()
	if err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex
		wait   sync.WaitGroup
		events []Event
	)
	for i := range askers {
		a := &asker{store: store, alive: alive, order: order, random: rand.New(rand.NewPCG(order.Seed, uint64(i))), limits: limits}
		wait.Go(func() {
			seen := a.askUntilEnd()
			mu.Lock()
			defer mu.Unlock()
			events = append(events, seen...)
		})
	}
	wait.Wait()
	return events, nil
}

type asker struct {
	store  store.Store
	alive  func(context.Context) error
	order  Order
	random *rand.Rand
	limits []*store.Limit
	slots  []Event // the slots that it last asked for
}

func (a *asker) ended() bool { return time.Now().UnixNano() >= a.order.Until }

func (a *asker) askUntilEnd() (events []Event) {
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

func (a *asker) draw() Event {
	e := Event{Key: a.random.IntN(a.order.Keys), Limit: a.random.IntN(len(Limits)), Cost: 1 + a.random.Int64N(3)}
	if isSlots(e.Limit) {
		return a.drawSlot(e)
	}
	if isLog(e.Limit) {
		return e // takes only: so that what was admitted can be counted by its times
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

// drawSlot asks for a slot, or does something to one of those that were asked for, whether it is still held or not.
func (a *asker) drawSlot(e Event) Event {
	e.Cost = 1
	if len(a.slots) == 0 || a.random.IntN(2) == 0 {
		e.ID = rule.ID(a.random.Uint64())
		a.slots = append(a.slots, e)
		a.slots = a.slots[max(0, len(a.slots)-8):]
		return e
	}
	e = a.slots[a.random.IntN(len(a.slots))]
	switch a.random.IntN(10) {
	case 0: // once more, as who did not hear the answer does
	case 1, 2, 3, 4, 5:
		e.Op = rule.Renew
	case 6, 7:
		e.Op = rule.Settle
	default:
		e.Op = rule.GiveBack
	}
	return e
}

func (a *asker) ask(e *Event) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	var answers [1]rule.Answer
	charge := store.Charge{Limit: a.limits[e.Limit], Key: string(rune('a' + e.Key)), Cost: e.Cost, At: rule.Oldest}
	if isSlots(e.Limit) {
		charge.At = 1 // a slot is found by its ID
	}
	e.Call = time.Now().UnixNano()
	err := a.store.Apply(ctx, []store.Request{{Op: e.Op, ID: e.ID, Charges: []store.Charge{charge}, Answers: answers[:]}})
	e.Return = time.Now().UnixNano()
	if err == nil {
		e.Known, e.Answer = true, answers[0]
	}
}

func (a *asker) awaitServer() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !a.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		err := a.alive(ctx)
		cancel()
		if err == nil {
			return
		}
		<-tick.C
	}
}
