package main

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// caller is one goroutine that sends requests to a limiter, one at a time.
type caller struct {
	waits            histogram
	requests, passed int64
	before           time.Time // when the last request was decided
}

// send sends one request. The clock is read once per request, so the little that the caller does between two requests is counted
// too.
func (c *caller) send(ctx context.Context, allow remoteAllow, key string) error {
	allowed, err := allow(ctx, key)
	if err != nil {
		return err
	}
	now := time.Now()
	c.waits.add(now.Sub(c.before))
	c.before = now
	c.requests++
	if allowed {
		c.passed++
	}
	return nil
}

// crew is a set of callers that begin together.
type crew struct {
	callers []caller
	errs    []error
	begin   chan struct{}
	done    sync.WaitGroup
}

func newCrew(n int) *crew {
	return &crew{callers: make([]caller, n), errs: make([]error, n), begin: make(chan struct{})}
}

// ready starts a goroutine for each caller, which waits for begin.
func (c *crew) ready(work func(int, *caller) error) {
	for i := range c.callers {
		c.done.Go(func() {
			<-c.begin
			c.callers[i].before = time.Now()
			c.errs[i] = work(i, &c.callers[i])
		})
	}
}

// finish starts the callers, waits for all of them, and returns the first error.
func (c *crew) finish() error {
	close(c.begin)
	c.done.Wait()
	for _, err := range c.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *crew) run(work func(int, *caller) error) error {
	c.ready(work)
	return c.finish()
}

// remoteAllow decides one request by calling a server. An error ends the run.
type remoteAllow func(ctx context.Context, key string) (bool, error)

// cpuReporter returns the CPU time of a server.
type cpuReporter interface {
	cpu(ctx context.Context) (time.Duration, error)
}

// commandCounter returns how many commands a server has run, including those of scripts.
type commandCounter interface {
	commands(ctx context.Context) (int64, error)
}

// commandsBy returns the number of commands of a server that reports it, and 0 for others.
func commandsBy(ctx context.Context, server cpuReporter) (int64, error) {
	if c, ok := server.(commandCounter); ok {
		return c.commands(ctx)
	}
	return 0, nil
}

// timeCallers runs callers for the given time, each from a different position in the list.
func timeCallers(ctx context.Context, server cpuReporter, allow remoteAllow, list keys, callers int, length time.Duration) (remoteSample, error) {
	crew := newCrew(callers)
	crew.ready(func(i int, c *caller) error {
		end := c.before.Add(length)
		for at := i * list.n / callers; c.before.Before(end); at++ {
			if err := c.send(ctx, allow, list.at(at%list.n)); err != nil {
				return err
			}
		}
		return nil
	})
	runtime.GC()
	serverBefore, err := server.cpu(ctx)
	if err != nil {
		return remoteSample{}, err
	}
	commandsBefore, err := commandsBy(ctx, server)
	if err != nil {
		return remoteSample{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ownBefore, _ := cpuTime()
	start := time.Now()
	if err := crew.finish(); err != nil {
		return remoteSample{}, err
	}
	elapsed := time.Since(start)
	ownAfter, _ := cpuTime()
	runtime.ReadMemStats(&after)
	serverAfter, err := server.cpu(ctx)
	if err != nil {
		return remoteSample{}, err
	}
	commandsAfter, err := commandsBy(ctx, server)
	if err != nil {
		return remoteSample{}, err
	}
	s := crew.sample(elapsed)
	s.commands = float64(commandsAfter-commandsBefore) / float64(s.requests)
	s.serverMicros = micros(serverAfter-serverBefore) / float64(s.requests)
	s.ownMicros = micros(ownAfter-ownBefore) / float64(s.requests)
	s.allocs = float64(after.Mallocs-before.Mallocs) / float64(s.requests)
	return s, nil
}

// sample sums up the results of the callers.
func (c *crew) sample(elapsed time.Duration) (s remoteSample) {
	var waits histogram
	for i := range c.callers {
		waits.merge(&c.callers[i].waits)
		s.requests += c.callers[i].requests
		s.passed += c.callers[i].passed
	}
	s.perSecond = float64(s.requests) / elapsed.Seconds()
	s.p50Micros, s.p99Micros = micros(waits.quantile(0.5)), micros(waits.quantile(0.99))
	return s
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// remoteSample holds the figures of one timed round of a row.
type remoteSample struct {
	requests, passed     int64
	perSecond            float64 // decisions
	p50Micros, p99Micros float64 // p50 and p99 of the waits
	serverMicros         float64 // CPU time per decision
	commands             float64 // of the server, per decision
	ownMicros            float64
	allocs               float64 // per decision
}

// The figures of a sample.
func rateOf(s *remoteSample) float64       { return s.perSecond }
func shareOf(s *remoteSample) float64      { return float64(s.passed) / float64(max(s.requests, 1)) }
func p50Micros(s *remoteSample) float64    { return s.p50Micros }
func p99Micros(s *remoteSample) float64    { return s.p99Micros }
func serverMicros(s *remoteSample) float64 { return s.serverMicros }
func commandsOf(s *remoteSample) float64   { return s.commands }
func ownMicros(s *remoteSample) float64    { return s.ownMicros }
func allocs(s *remoteSample) float64       { return s.allocs }

// remoteSamples holds the samples of all rounds of a row.
type remoteSamples []remoteSample

func (s remoteSamples) figures(figure func(*remoteSample) float64) []float64 {
	values := make([]float64, len(s))
	for i := range s {
		values[i] = figure(&s[i])
	}
	return values
}

func (s remoteSamples) median(figure func(*remoteSample) float64) float64 {
	return median(s.figures(figure))
}

// spread returns the width of the middle half of the rates, relative to the median.
func (s remoteSamples) spread() float64 {
	rates := s.figures(rateOf)
	return (quantile(rates, 0.75) - quantile(rates, 0.25)) / max(median(rates), 1e-9)
}

// share returns the share of the requests that was admitted.
func (s remoteSamples) share() float64 {
	var requests, passed int64
	for i := range s {
		requests, passed = requests+s[i].requests, passed+s[i].passed
	}
	return float64(passed) / float64(max(requests, 1))
}
