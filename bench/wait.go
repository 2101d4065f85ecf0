package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// The wait scenario: so many callers come at once, and wait until they are admitted by a token bucket.
const (
	waiters     = 2000
	waitRate    = 500 // a second
	waitBurst   = 10
	waitRounds  = 5
	wallGoal    = 1.05
	cpuGoal     = 3.0
	waitLimit   = "500/1s token-bucket burst=10"
	waitersFew  = 200 // with -quick
	waitMillion = 1e6
)

// waitRow is how a library is waited for, and what that took.
type waitRow struct {
	name      string
	open      func() (func(context.Context) error, error)
	wall, cpu []float64 // in milliseconds, by round
}

func waitRows() []*waitRow {
	return []*waitRow{
		{name: "x/time/rate", open: func() (func(context.Context) error, error) {
			return rate.NewLimiter(waitRate, waitBurst).Wait, nil
		}},
		{name: "slidegate", open: func() (func(context.Context) error, error) {
			store, err := memstore.New(memstore.Options{})
			if err != nil {
				return nil, err
			}
			limiter, err := slidegate.New(store, slidegate.MustParseLimit(waitLimit))
			return func(ctx context.Context) error { return limiter.Wait(ctx, "key", 1) }, err
		}},
	}
}

// waitTables measures how long it takes until all callers that wait for one key are served, and what that costs.
func (r *run) waitTables() ([]*table, error) {
	rows, callers := waitRows(), waiters
	rounds := waitRounds
	if r.quick {
		callers, rounds = waitersFew, 1
	}
	for round := range rounds {
		for _, row := range rows {
			r.logf("wait: round %d of %d: %s", round+1, rounds, row.name)
			if err := row.measure(callers); err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
		}
	}
	t := &table{
		title:   fmt.Sprintf("Waiting: %d callers of one key at once, %s", callers, waitLimit),
		columns: []string{"library", "wall ms", "cpu ms", "wall ratio", "cpu ratio", "goal"},
		names:   1,
	}
	base := rows[0]
	for _, row := range rows {
		cells := []string{row.name, fmt.Sprintf("%.0f", median(row.wall)), fmt.Sprintf("%.1f", median(row.cpu)), "", "", ""}
		if row != base {
			wall, cpu := median(row.wall)/median(base.wall), median(row.cpu)/median(base.cpu)
			cells[3], cells[4] = fmt.Sprintf("%.3f", wall), fmt.Sprintf("%.2f", cpu)
			cells[5] = fmt.Sprintf("%.2f and %.0f", wallGoal, cpuGoal)
		}
		t.add(cells...)
	}
	t.note("Medians of %d interleaved rounds; cpu is user and system time.", rounds)
	return []*table{t}, nil
}

// measure runs one round.
func (w *waitRow) measure(callers int) error {
	wait, err := w.open()
	if err != nil {
		return err
	}
	measureMemory() // collects garbage
	before, _ := cpuTime()
	start := time.Now()
	errs := make(chan error, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { errs <- wait(context.Background()) })
	}
	all.Wait()
	wall := time.Since(start)
	after, _ := cpuTime()
	w.wall, w.cpu = append(w.wall, float64(wall)/waitMillion), append(w.cpu, float64(after-before)/waitMillion)
	for range callers {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}
