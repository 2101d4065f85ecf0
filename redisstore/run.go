package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/store"
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
			return fmt.Errorf("redisstore: the context ended before Redis answered: %w", ctx.Err())
		}
	}
	if panicked != nil {
		panic(panicked)
	}
	return nil
}

// send runs the calls; those that share a key, one at a time.
func (t *roundTrip) send(ctx context.Context, conn Conn) {
	if t.split {
		t.runInOrder(ctx, conn)
		return
	}
	conn.Run(ctx, &script, t.calls)
}

// failAll gives all requests of a batch the same error.
func failAll(batch []store.Request, err error) error {
	for i := range batch {
		batch[i].Err = err
	}
	return err
}
