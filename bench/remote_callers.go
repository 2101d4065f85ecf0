package main

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// caller is one goroutine that asks a limiter, one request after the other.
type caller struct {
	waits         histogram
	asked, passed int64
	before        time.Time // when the last request was answered
}

// ask sends one request. The clock is read once a request, so what little the caller does between two is counted too.
func (c *caller) ask(ctx context.Context, allow remoteAllow, key string) error {
	allowed, err := allow(ctx, key)
	if err != nil {
		return err
	}
	now := time.Now()
	c.waits.add(now.Sub(c.before))
	c.before = now
	c.asked++
	if allowed {
		c.passed++
	}
	return nil
}

// crew is callers who begin together.
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

// finish lets them begin, waits for all of them, and returns the first error.
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

// remoteAllow decides about one request by asking a server. An error ends the run.
type remoteAllow func(ctx context.Context, key string) (bool, error)

// worker tells how long the processors have worked for a server.
type worker interface {
	cpu(ctx context.Context) (time.Duration, error)
}

// commander returns how many commands a server has carried out, those of scripts included.
type commander interface {
	commands(ctx context.Context) (int64, error)
}

// commandsBy asks a server that can tell; others have carried out none.
func commandsBy(ctx context.Context, server worker) (int64, error) {
	if c, ok := server.(commander); ok {
		return c.commands(ctx)
	}
	return 0, nil
}

// timeCallers lets callers ask for the given time, each beginning at another place of the list.
func timeCallers(ctx context.Context, server worker, allow remoteAllow, list keys, callers int, length time.Duration) (remoteSample, error) {
	crew := newCrew(callers)
	crew.ready(func(i int, c *caller) error {
		end := c.before.Add(length)
		for at := i * list.n / callers; c.before.Before(end); at++ {
			if err := c.ask(ctx, allow, list.at(at%list.n)); err != nil {
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
	s.commands = float64(commandsAfter-commandsBefore) / float64(s.asked)
	s.serverMicros = micros(serverAfter-serverBefore) / float64(s.asked)
	s.ownMicros = micros(ownAfter-ownBefore) / float64(s.asked)
	s.allocs = float64(after.Mallocs-before.Mallocs) / float64(s.asked)
	return s, nil
}

// sample adds up what the callers saw.
func (c *crew) sample(elapsed time.Duration) (s remoteSample) {
	var waits histogram
	for i := range c.callers {
		waits.merge(&c.callers[i].waits)
		s.asked += c.callers[i].asked
		s.passed += c.callers[i].passed
	}
	s.perSecond = float64(s.asked) / elapsed.Seconds()
	s.halfMicros, s.mostMicros = micros(waits.quantile(0.5)), micros(waits.quantile(0.99))
	return s
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// remoteSample is what one timed round of a row gave.
type remoteSample struct {
	asked, passed          int64
	perSecond              float64 // decisions
	halfMicros, mostMicros float64 // what half of the requests, and 99 of 100, waited at most
	serverMicros           float64 // of the processors, a decision
	commands               float64 // of the server, a decision
	ownMicros              float64
	allocs                 float64 // a decision
}

// The figures of a sample.
func rateOf(s *remoteSample) float64       { return s.perSecond }
func halfMicros(s *remoteSample) float64   { return s.halfMicros }
func mostMicros(s *remoteSample) float64   { return s.mostMicros }
func serverMicros(s *remoteSample) float64 { return s.serverMicros }
func commandsOf(s *remoteSample) float64   { return s.commands }
func ownMicros(s *remoteSample) float64    { return s.ownMicros }
func allocs(s *remoteSample) float64       { return s.allocs }

// remoteSamples is what all rounds of a row gave.
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

// spread is how far apart the middle half of the rates lies, as a part of the median.
func (s remoteSamples) spread() float64 {
	rates := s.figures(rateOf)
	return (quantile(rates, 0.75) - quantile(rates, 0.25)) / max(median(rates), 1e-9)
}

// share is the part of the requests that was admitted.
func (s remoteSamples) share() float64 {
	var asked, passed int64
	for i := range s {
		asked, passed = asked+s[i].asked, passed+s[i].passed
	}
	return float64(passed) / float64(max(asked, 1))
}
