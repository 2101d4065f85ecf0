package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The goals of Slidegate, relative to the original.
const (
	envoyGoalMemory = 2.0
	envoyGoalRedis  = 1.5
)

// The rows of Slidegate.
const (
	envoyRedis  = "slidegate, Redis"
	envoyMemory = "slidegate, memory"
)

// envoyTables compares our service for Envoy with envoyproxy/ratelimit: first the codes, then the speed over one connection.
func (r *run) envoyTables() ([]*table, error) {
	t := &table{
		title:   "Envoy: rate limit services over gRPC, one descriptor, all admitted",
		columns: []string{"service", "callers", "requests/s", "spread", "p50 µs", "p99 µs", "CPU µs", "to the original", "p99", "goal"},
	}
	if !r.measuresOwn() {
		t.note("Left out: -only does not name %s.", own)
		return []*table{t}, nil
	}
	folder, err := os.MkdirTemp("", "bench-envoy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	servers, stop, err := r.openEnvoy(t, folder)
	defer stop()
	if errors.Is(err, errNoRedis) {
		t.note("Left out: %v.", err)
		return []*table{t}, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := r.compareEnvoy(ctx, t, servers); err != nil {
		return nil, err
	}
	for _, callers := range []int{1, 16, 64} {
		if err := r.timeEnvoy(t, servers, callers); err != nil {
			return nil, err
		}
	}
	t.note("Medians of %d rounds of %v, the services in turn, each in a separate process, all with the same client on the same machine; "+
		"ratios are medians of those within a round. CPU is that of the service, without its Redis, in steps of 10 ms. "+
		"The original is %s@%s; the others are compared with its faster row.", r.envoyRounds(), r.envoyTime(), envoyPeer, envoyPeerVersion)
	t.note("Goals: %g times as many requests in memory, %g times in Redis, and a lower p99. A single caller has none: it mostly waits for processes "+
		"to be scheduled, two in memory and four with a Redis, for every service alike.", envoyGoalMemory, envoyGoalRedis)
	return []*table{t}, nil
}

// openEnvoy starts the services, the original first, and a Redis for each service that needs one.
func (r *run) openEnvoy(t *table, folder string) (servers []*envoyServer, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	rules := filepath.Join(folder, "ratelimit", "config", "bench.yaml")
	if err := os.MkdirAll(filepath.Dir(rules), 0o755); err != nil {
		return nil, stop, err
	}
	if err := os.WriteFile(rules, []byte(envoyRules), 0o644); err != nil {
		return nil, stop, err
	}
	starts := []func(url string) (*envoyServer, error){
		func(url string) (*envoyServer, error) { return r.startOurs(envoyRedis, url, rules) },
		func(string) (*envoyServer, error) { return r.startOurs(envoyMemory, "memory:", rules) },
	}
	program, err := r.peerProgram(folder)
	if err != nil {
		t.note("Without the original: %v.", err)
	} else {
		starts = append([]func(url string) (*envoyServer, error){
			func(url string) (*envoyServer, error) { return startPeer("original, Redis", program, folder, url) },
			func(url string) (*envoyServer, error) {
				return startPeer("original, Redis, pipelined", program, folder, url, "REDIS_PIPELINE_WINDOW=150us")
			},
		}, starts...)
	}
	redis := func() (string, error) {
		s, err := openRedis(context.Background())
		if err != nil {
			return "", err
		}
		stops = append(stops, s.close)
		if s.process == nil {
			return "", fmt.Errorf("%s: this scenario needs a Redis for each service, and starts them itself; unset it", redisURLEnv)
		}
		return s.process.url, nil
	}
	for _, start := range starts {
		url, err := redis()
		if err != nil {
			return nil, stop, err
		}
		s, err := start(url)
		if err != nil {
			return nil, stop, err
		}
		stops = append(stops, s.stop)
		servers = append(servers, s)
	}
	return servers, stop, nil
}

// compareEnvoy sends the same requests to all services.
func (r *run) compareEnvoy(ctx context.Context, t *table, servers []*envoyServer) error {
	plays := 20
	if r.quick {
		plays = 3
	}
	compared, differences, err := r.playScript(ctx, servers, plays)
	if err != nil {
		return err
	}
	for i, d := range differences {
		if i == 5 {
			break
		}
		r.logf("envoy: %s", d)
	}
	if len(differences) > 0 {
		r.fail("envoy: %d of %d responses differ from those of the first row", len(differences), compared)
	}
	t.note("%d responses compared with those of the first row: %d differ in a code, in what remains or in the limit.", compared, len(differences))
	return nil
}

// envoySample holds the figures of one round.
type envoySample struct{ perSecond, p50, p99, cpu float64 }

// timeEnvoy times all services with a number of callers, and adds a row for each.
func (r *run) timeEnvoy(t *table, servers []*envoyServer, callers int) error {
	samples := make([][]envoySample, len(servers))
	for round := range r.envoyRounds() + 1 {
		r.logf("envoy: %d callers: round %d of %d", callers, round, r.envoyRounds())
		for i := range servers {
			which := (i + round) % len(servers) // so that none is always first
			s, err := r.loadEnvoy(servers[which], callers)
			if err != nil {
				return fmt.Errorf("%s: %w", servers[which].name, err)
			}
			if round > 0 { // the first round warms up
				samples[which] = append(samples[which], s)
			}
		}
	}
	of := func(which int, value func(envoySample) float64) (values []float64) {
		for _, s := range samples[which] {
			values = append(values, value(s))
		}
		return values
	}
	rate := func(s envoySample) float64 { return s.perSecond }
	p50, p99 := func(s envoySample) float64 { return s.p50 }, func(s envoySample) float64 { return s.p99 }
	cpu := func(s envoySample) float64 { return s.cpu }
	original := -1 // its faster row
	for i, s := range servers {
		if !s.ours() && (original < 0 || median(of(i, rate)) > median(of(original, rate))) {
			original = i
		}
	}
	for i, s := range servers {
		times, later, result := "-", "-", ""
		if original >= 0 {
			faster, p99s := median(ratios(of(i, rate), of(original, rate))), median(ratios(of(i, p99), of(original, p99)))
			times, later = fmt.Sprintf("%.2fx", faster), fmt.Sprintf("%.2fx", p99s)
			if goal := map[string]float64{envoyRedis: envoyGoalRedis, envoyMemory: envoyGoalMemory}[s.name]; goal > 0 && callers > 1 {
				result = fmt.Sprintf("%gx: met", goal)
				if faster < goal || p99s >= 1 {
					result = fmt.Sprintf("%gx: missed", goal)
				}
			}
		}
		rates := of(i, rate)
		spread := (quantile(rates, 0.75) - quantile(rates, 0.25)) / 2 / median(rates)
		t.add(s.name, fmt.Sprint(callers), fmt.Sprintf("%.0f", median(rates)), fmt.Sprintf("±%.0f%%", 100*spread),
			fmt.Sprintf("%.0f", median(of(i, p50))), fmt.Sprintf("%.0f", median(of(i, p99))), fmt.Sprintf("%.1f", median(of(i, cpu))),
			times, later, result)
	}
	return nil
}

// ratios returns the quotients of the figures of two rows, one per round.
func ratios(these, those []float64) (quotients []float64) {
	for i := range these {
		quotients = append(quotients, these[i]/those[i])
	}
	return quotients
}

// loadEnvoy loads one service for one round, with one open request per caller.
func (r *run) loadEnvoy(s *envoyServer, callers int) (envoySample, error) {
	if s.load == nil { // not earlier: a connection that is idle for long is closed
		var err error
		if s.load, err = dialEnvoy(s.addr, cmp.Or(s.keys, envoyKeys)); err != nil {
			return envoySample{}, err
		}
	}
	worked, began := s.cpu(), time.Now()
	took, err := s.load.run(callers, r.envoyTime())
	seconds := time.Since(began).Seconds()
	worked = s.cpu() - worked
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return envoySample{
		perSecond: float64(took.total) / seconds, p50: micros(took.quantile(0.5)), p99: micros(took.quantile(0.99)),
		cpu: micros(worked) / float64(took.total),
	}, err
}

func (r *run) envoyRounds() int { return min(r.rounds, 9) }

func (r *run) envoyTime() time.Duration {
	if r.quick {
		return 200 * time.Millisecond
	}
	return time.Second
}
