package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// wirePair is two servers that send the same bytes: one with a middleware, and one that only writes the headers that the middleware
// would send. The difference of their CPU times is the cost of the middleware.
type wirePair struct {
	name          string
	plain, limits string // the kinds of server, see serveWire
}

func wirePairs() []wirePair {
	return []wirePair{
		{"slidegate, no headers", "plain", "limits"},
		{"slidegate", "plain-headers", "limits-headers"},
	}
}

const (
	wireConnections = 32
	wireRounds      = 9 // at most, so that no run takes long
	goalMicros      = 1.0
)

// wireSample holds the figures of one round of a server.
type wireSample struct {
	perSecond float64 // requests
	micros    float64 // CPU time per request
}

// wireTables measures real servers, each in a separate process with one processor, under load from wrk.
func (r *run) wireTables() ([]*table, error) {
	t := &table{
		title:   fmt.Sprintf("Wire: servers on loopback under %d connections", wireConnections),
		columns: []string{"server", "requests/s", "without limits", "CPU µs/request", "without limits", "difference", "spread", "goal"},
	}
	wrk, err := exec.LookPath("wrk")
	_, ok := cpuTime()
	switch {
	case !r.measuresOwn():
		t.note("Left out: -only does not name %s.", own)
		return []*table{t}, nil
	case err != nil:
		t.note("Left out: wrk, which makes the load, is missing. Install the package wrk.")
		return []*table{t}, nil
	case !ok:
		t.note("Left out: this system does not report the CPU time of a process.")
		return []*table{t}, nil
	}
	for _, pair := range wirePairs() {
		if err := r.timePair(t, wrk, pair); err != nil {
			return nil, fmt.Errorf("%s: %w", pair.name, err)
		}
	}
	t.note("Medians of %d rounds of %v, the two servers of a row in turn. Both write the same headers, the one without limits "+
		"with constant values. Goal: at most %g µs. One processor each for server and load.",
		r.wireRounds(), r.wireTime(), goalMicros)
	return []*table{t}, nil
}

// timePair starts both servers of a row, times them in turn, and adds the row.
func (r *run) timePair(t *table, wrk string, pair wirePair) error {
	var servers [2]*wireServer
	for i, kind := range []string{pair.plain, pair.limits} {
		server, err := startWireServer(kind)
		if err != nil {
			return err
		}
		defer server.stop()
		servers[i] = server
	}
	var plain, limits, difference []float64
	var rates [2][]float64
	for round := range r.wireRounds() + 1 {
		if round == 0 && r.quick {
			continue // no need to warm up for figures that mean little
		}
		r.logf("wire: %s: round %d of %d", pair.name, round, r.wireRounds())
		var micros [2]float64
		for i := range servers {
			which := (i + round) % 2 // so that neither is always first
			s, err := r.timeServer(wrk, servers[which])
			if err != nil {
				return err
			}
			micros[which] = s.micros
			if round > 0 { // the first round warms up
				rates[which] = append(rates[which], s.perSecond)
			}
		}
		if round > 0 {
			plain, limits = append(plain, micros[0]), append(limits, micros[1])
			difference = append(difference, micros[1]-micros[0])
		}
	}
	result := "met"
	if median(difference) > goalMicros {
		result = "missed"
	}
	half := (quantile(difference, 0.75) - quantile(difference, 0.25)) / 2
	t.add(pair.name, fmt.Sprintf("%.0f", median(rates[1])), fmt.Sprintf("%.0f", median(rates[0])), fmt.Sprintf("%.2f", median(limits)),
		fmt.Sprintf("%.2f", median(plain)), fmt.Sprintf("%+.2f", median(difference)), fmt.Sprintf("±%.2f", half), result)
	return nil
}

// timeServer puts a server under load for one round.
func (r *run) timeServer(wrk string, server *wireServer) (wireSample, error) {
	length := r.wireTime()
	ctx, cancel := context.WithTimeout(context.Background(), length+10*time.Second)
	defer cancel()
	before, err := server.cpu()
	if err != nil {
		return wireSample{}, err
	}
	out, err := exec.CommandContext(ctx, wrk, "-t", "1", "-c", strconv.Itoa(wireConnections), "-d", length.String(), server.url).CombinedOutput()
	if err != nil {
		return wireSample{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	after, err := server.cpu()
	if err != nil {
		return wireSample{}, err
	}
	requests, perSecond, err := readWrk(out)
	if err != nil {
		return wireSample{}, err
	}
	return wireSample{perSecond: perSecond, micros: float64(after-before) / float64(time.Microsecond) / requests}, nil
}

var (
	wrkRequests  = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkRate      = regexp.MustCompile(`(?m)^Requests/sec:\s+([0-9.]+)`)
	wrkErrorLine = regexp.MustCompile(`(?m)^\s*(Non-2xx or 3xx responses|Socket errors): .*`)
)

// readWrk parses the number of responses, in all and per second. Responses other than 200 make the figures worthless.
func readWrk(out []byte) (requests, perSecond float64, err error) {
	if trouble := wrkErrorLine.Find(out); trouble != nil {
		return 0, 0, fmt.Errorf("wrk: %s", trouble)
	}
	number := func(pattern *regexp.Regexp) float64 {
		if found := pattern.FindSubmatch(out); found != nil {
			if n, err := strconv.ParseFloat(string(found[1]), 64); err == nil {
				return n
			}
		}
		return math.NaN()
	}
	requests, perSecond = number(wrkRequests), number(wrkRate)
	if !(requests > 0) || !(perSecond > 0) {
		return 0, 0, fmt.Errorf("wrk: cannot parse the output: %s", out)
	}
	return requests, perSecond, nil
}

func (r *run) wireRounds() int { return min(r.rounds, wireRounds) }

// wireTime returns the length of a round; wrk takes whole seconds.
func (r *run) wireTime() time.Duration {
	if r.quick {
		return time.Second
	}
	return 2 * time.Second
}
