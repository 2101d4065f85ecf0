package pgstore

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	expireRows = 1000 // per call
	maxBarren  = 8    // consecutive calls that found almost nothing, after which Sweep ends a round
)

// Expire deletes all rows that no longer matter, and returns how many. It walks through the table in small steps, each
// its own transaction, and waits for no locks. Any number of processes may call it concurrently.
func (s *Store) Expire(ctx context.Context) (deleted int64, err error) {
	return s.walk(ctx, "", func(int64) bool { return true })
}

// Sweep expires rows repeatedly until ctx ends, and returns ctx's error. Run it in a goroutine, in one process or in
// all of them: each round begins at a random position and stops where there is little to find, so processes share the
// work without coordination. An error of the server ends a round but not Sweep; it is passed to failed, which may be
// nil.
//
// A round begins about once per every. Each row is visited from time to time, not as soon as it expires: in a table
// that is swept, only a small part of the rows is dead, and dead rows affect no decision.
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

// sweep goes once around the table from a random position, until it finds nothing for a while.
func (s *Store) sweep(ctx context.Context) error {
	var from string
	if err := s.db.QueryRow(ctx, s.randomAddress).Scan(&from); err != nil {
		return explain(ctx, err)
	}
	idle := 0
	fruitful := func(deleted int64) bool {
		if idle++; deleted > expireRows/100 {
			idle = 0
		}
		return idle < maxBarren
	}
	if _, err := s.walk(ctx, from, fruitful); err != nil || from == "" || idle >= maxBarren {
		return err
	}
	_, err := s.walk(ctx, "", fruitful) // it passes the end a second time, but finds nothing there
	return err
}

// walk expires rows from an address to the end, as long as further returns true for the number of rows that a step
// deleted.
func (s *Store) walk(ctx context.Context, from string, further func(deleted int64) bool) (deleted int64, err error) {
	for {
		var gone, seen int64
		var last *string
		row := s.db.QueryRow(ctx, s.expire, from, int64(expireRows), s.now(), s.opts.Grace.Microseconds())
		if err := row.Scan(&gone, &seen, &last); err != nil {
			return deleted, explain(ctx, err)
		}
		deleted += gone
		if seen < expireRows || last == nil || !further(gone) {
			return deleted, nil
		}
		from = *last
	}
}
