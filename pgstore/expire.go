package pgstore

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	expireRows = 1000 // that one call looks at
	barren     = 8    // calls in a row that found next to nothing, after which Sweep leaves the rest for another time
)

// Expire deletes all rows that do not matter any more, and returns how many. It walks through the table in small steps, each a
// transaction of its own, and waits for nobody. Any number of processes may do so at the same time.
func (s *Store) Expire(ctx context.Context) (deleted int64, err error) {
	return s.walk(ctx, "", func(int64) bool { return true })
}

// Sweep expires again and again until ctx ends, and returns ctx's error. Run it in a goroutine, in one process or in all of them: each
// begins at a random place and stops where there is little to find, so they share the work without knowing of one another. An
// error of the server ends a round and not the sweeping; failed, which may be nil, is told of it.
//
// A round begins after every, more or less. Every row is visited once in every so often, not at once: what is dead is a small part
// of a table that is swept, and decides nothing.
func (s *Store) Sweep(ctx context.Context, every time.Duration, failed func(error)) error {
	every = max(every, time.Millisecond)
	for {
		wait := time.NewTimer(every/2 + rand.N(every)) // at different times in different processes
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-wait.C:
		}
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil && failed != nil {
			failed(err)
		}
	}
}

// sweep goes once round the table from a random place, until it finds nothing for a while.
func (s *Store) sweep(ctx context.Context) error {
	var from string
	if err := s.conn.Row(ctx, s.place, nil, &from); err != nil {
		return explain(ctx, err)
	}
	idle := 0
	fruitful := func(deleted int64) bool {
		if idle++; deleted > expireRows/100 {
			idle = 0
		}
		return idle < barren
	}
	if _, err := s.walk(ctx, from, fruitful); err != nil || from == "" || idle >= barren {
		return err
	}
	_, err := s.walk(ctx, "", fruitful) // up to the end a second time, but there it finds nothing
	return err
}

// walk expires from an address on to the end, for as long as another step is wanted after one that deleted so many.
func (s *Store) walk(ctx context.Context, from string, further func(deleted int64) bool) (deleted int64, err error) {
	for {
		var gone, seen int64
		var last *string
		args := []any{from, int64(expireRows), s.now(), s.opts.Grace.Microseconds()}
		if err := s.conn.Row(ctx, s.expire, args, &gone, &seen, &last); err != nil {
			return deleted, explain(ctx, err)
		}
		deleted += gone
		if seen < expireRows || last == nil || !further(gone) {
			return deleted, nil
		}
		from = *last
	}
}
