package redisstore

import (
	"context"
	"fmt"
	"time"
)

// longestRun bounds how long a client works on a round trip after its caller has left.
const longestRun = 5 * time.Second

// patientContext is the context of a client's work on a round trip. Its deadline, if the caller has one, is later than the
// caller's: a client that reads with a deadline would miss an answer that came while this process did not run. It is done
// when the caller gives up.
type patientContext struct{ context.Context }

func (p patientContext) Deadline() (time.Time, bool) {
	until, ok := p.Context.Deadline()
	if ok {
		until = until.Add(longestRun)
	}
	return until, ok
}

// run sends a round trip, and returns an error if ctx ends before the answer has come. The round trip then belongs to
// the client. It is sent by another goroutine if ctx can end, because clients do not return when it does: go-redis
// ignores a context by default, and rueidis does while it connects.
func (s *Store) run(ctx context.Context, t *roundTrip) error {
	if ctx.Done() == nil {
		t.send(ctx, s.conn)
		return nil
	}
	s.workers.send(patientContext{ctx}, t)
	var panicked any
	select {
	case panicked = <-t.done:
	case <-ctx.Done():
		select {
		case panicked = <-t.done: // an answer is preferred to an error
		default:
			return endedError(ctx)
		}
	}
	if panicked != nil {
		panic(panicked)
	}
	return nil
}

// endedError returns the error of a request whose caller left.
func endedError(ctx context.Context) error {
	return fmt.Errorf("redisstore: the context ended before Redis answered: %w", ctx.Err())
}

// send runs the calls; those that share a key, and those that are much work, one at a time.
func (t *roundTrip) send(ctx context.Context, conn Conn) {
	if t.split || t.work > maxTurn {
		t.runInOrder(ctx, conn)
		return
	}
	script.run(ctx, conn, t.calls)
}

// runInOrder runs calls of which several may have a key in common, or that are much work. Those with a key in common are sent
// one at a time: if two were sent together, the first could be carried out last, when the server does not know the script
// at first, or when a node of a cluster redirects the client. And what is sent together is bounded by maxTurn, so that other
// clients of the server have their turn.
func (t *roundTrip) runInOrder(ctx context.Context, conn Conn) {
	turn := make(map[string]int) // by name of a key, the turn of its last call, counted from 1
	turns := make([]int, len(t.calls))
	work := []int{0, 0} // by turn
	last := 0
	for i := range t.calls {
		for _, name := range t.calls[i].Keys {
			turns[i] = max(turns[i], turn[name])
		}
		turns[i]++
		for work[turns[i]] > 0 && work[turns[i]]+t.drafts[i].work > maxTurn {
			turns[i]++
		}
		work[turns[i]] += t.drafts[i].work
		for _, name := range t.calls[i].Keys {
			turn[name] = turns[i]
		}
		if last = max(last, turns[i]); last+1 == len(work) {
			work = append(work, 0) // there is always an empty turn at the end
		}
	}
	if last == 1 {
		script.run(ctx, conn, t.calls)
		return
	}
	for now := 1; now <= last; now++ {
		t.runTurn(ctx, conn, turns, now)
	}
}

// runTurn runs the calls of a turn. If ctx has ended, nothing is sent.
func (t *roundTrip) runTurn(ctx context.Context, conn Conn, turns []int, now int) {
	var calls []Call
	for i := range t.calls {
		if turns[i] == now {
			calls = append(calls, t.calls[i])
		}
	}
	if err := ctx.Err(); err != nil {
		for i := range calls {
			calls[i].Err = err
		}
	} else {
		script.run(ctx, conn, calls)
	}
	for i, next := 0, 0; i < len(t.calls); i++ {
		if turns[i] == now {
			t.calls[i] = calls[next]
			next++
		}
	}
}

// runOnce runs a script for other purposes than deciding, and returns the calls with their replies, or the first error. It returns
// when ctx ends, which not every client does.
func (s *Store) runOnce(ctx context.Context, script *lua, calls []Call) ([]Call, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		script.run(ctx, s.conn, calls)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, endedError(ctx)
	}
	for i := range calls {
		if calls[i].Err != nil {
			return nil, callError(&calls[i])
		}
	}
	return calls, nil
}
