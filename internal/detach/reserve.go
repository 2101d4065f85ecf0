package detach

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Reserve is Apply for requests that take units or slots under an ID. If ctx ends while the store is asked, Reserve returns
// ctx's error at once, as Apply does, but the call continues for at most MaxTime, and what it took is cancelled when the
// answer comes: the caller never learns what it would have to give back. The returned channel is then closed when that is
// done; otherwise it is nil. If the answer is lost too, what was taken stays charged until it expires.
//
// A call to a store with round trips runs on another goroutine if ctx can end. A panic of the store is passed on to the
// caller if it is still there.
func Reserve(ctx context.Context, on store.Store, batch []store.Request) (cancelled <-chan struct{}, err error) {
	if ctx.Done() == nil || ctx.Err() != nil { // in the second case the store takes nothing
		return nil, on.Apply(ctx, batch)
	}
	if !isRemote(on) {
		return nil, reserveHere(ctx, on, batch)
	}
	r := &reservation{on: on, batch: copyOf(batch), answered: make(chan error), cancelled: make(chan struct{})}
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go r.run(ctx, detached, cancel)
	select {
	case err = <-r.answered:
		if r.panicked != nil {
			panic(r.panicked)
		}
		for i := range batch {
			copy(batch[i].Answers, r.batch[i].Answers)
			batch[i].Err = r.batch[i].Err
		}
		return nil, err
	case <-ctx.Done():
		if abandoned.Add(1) > maxAbandoned {
			cancel()
		} else {
			time.AfterFunc(MaxTime, cancel)
		}
		for i := range batch {
			batch[i].Err = ctx.Err()
		}
		return r.cancelled, ctx.Err()
	}
}

// maxAbandoned bounds the calls of this process that continue after their callers have left. Further ones end with their
// callers, and what they took stays charged until it expires.
const maxAbandoned = 1024

var abandoned atomic.Int64

// isRemote reports whether a store, or one below it, has round trips.
func isRemote(s store.Store) bool {
	for s != nil {
		if s.Traits().RoundTrips > 0 {
			return true
		}
		wrapper, wraps := s.(store.Wrapper)
		if !wraps {
			return false
		}
		s = wrapper.Unwrap()
	}
	return false
}

// reserveHere calls a store in process, which answers before a caller could leave. A layer over it may still wait: if it
// gives up after the store below has answered, the answers show what was taken.
func reserveHere(ctx context.Context, on store.Store, batch []store.Request) error {
	for i := range batch {
		clear(batch[i].Answers)
	}
	err := on.Apply(ctx, batch)
	if err != nil && ctx.Err() != nil {
		answered := slices.Clone(batch)
		for i := range answered {
			answered[i].Err = nil
		}
		cancelTaken(ctx, on, answered)
	}
	return err
}

// reservation is a call of Reserve on a goroutine of its own.
type reservation struct {
	on        store.Store
	batch     []store.Request // a copy, because the caller may leave with its own
	answered  chan error      // unbuffered: either the caller receives, or it has left
	panicked  any
	cancelled chan struct{}
}

// run calls the store, and gives the result to the caller or cancels it.
func (r *reservation) run(ctx, detached context.Context, cancel context.CancelFunc) {
	err := errors.New("store: the store ended its goroutine")
	defer func() { // also if the store panics
		r.panicked = recover()
		cancel()
		select {
		case r.answered <- err:
		case <-ctx.Done():
			if r.panicked == nil {
				cancelTaken(ctx, r.on, r.batch)
			}
			abandoned.Add(-1)
			close(r.cancelled)
		}
	}()
	err = r.on.Apply(detached, r.batch)
}

func copyOf(batch []store.Request) []store.Request {
	copied := slices.Clone(batch)
	for i := range copied {
		copied[i].Charges = slices.Clone(copied[i].Charges)
		copied[i].Answers = make([]rule.Answer, len(copied[i].Answers))
	}
	return copied
}

// cancelTaken returns what the requests of a batch took. It sends that again if it fails.
func cancelTaken(ctx context.Context, on store.Store, batch []store.Request) {
	var undo []store.Request
	for i := range batch {
		if !wasTaken(&batch[i]) {
			continue
		}
		if one := cancelOf(&batch[i]); len(one.Charges) > 0 {
			undo = append(undo, one)
		}
	}
	if len(undo) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), MaxTime)
	defer cancel()
	Retry(ctx, func() (again bool) { return on.Apply(ctx, undo) != nil })
}

// wasTaken reports whether a request took anything that is to be cancelled if its caller has left. A call that counts once is not: its
// caller sends it again, or cancels it by its ID. A failure layer that admits everything takes nothing.
func wasTaken(r *store.Request) bool {
	if r.ID == 0 || r.Once || r.Err != nil || r.Op != rule.Take && r.Op != rule.TakeUpTo {
		return false
	}
	index, allowed := answering.Deciding(r.Answers)
	return allowed && r.Answers[index].Flags&(rule.FallbackOpen|rule.FallbackClosed) == 0
}

// cancelOf returns the request that returns what another one took.
func cancelOf(taken *store.Request) store.Request {
	r := store.Request{Op: rule.Settle, Group: taken.Group, ID: taken.ID}
	for i, charge := range taken.Charges {
		if a := &taken.Answers[i]; a.Granted > 0 {
			charge.Cost, charge.At, charge.Used = a.Granted, a.At, 0
			r.Charges = append(r.Charges, charge)
		}
	}
	r.Answers = make([]rule.Answer, len(r.Charges))
	return r
}

// retryPauses are the times after which Retry tries again. Together they outlast the second in which a failure layer does
// not call a store.
var retryPauses = [...]time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond}

// Retry calls send until it reports that another attempt makes no sense, at most four times within two seconds and the time
// that send takes. It stops when ctx ends. It is for requests that may be repeated, such as those that settle a reservation.
func Retry(ctx context.Context, send func() (again bool)) {
	for _, pause := range retryPauses {
		if !send() {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
	send()
}
