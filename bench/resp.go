package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	respConnections = 50
	respKeys        = 100_000
	respRounds      = 7 // at most, so that no run takes long
)

// respRow is one command, sent to one of the servers.
type respRow struct {
	name    string
	ours    bool
	command []string
}

// respRows returns the rows; the others are compared with the first.
func respRows() []respRow {
	const key = "key:__rand_int__"
	return []respRow{
		{"redis-server, INCR", false, []string{"INCR", key}},
		{"slidegate, SG.ALLOW", true, []string{"SG.ALLOW", "default", key}},
		{"slidegate, CL.THROTTLE", true, []string{"CL.THROTTLE", key, "1000000", "1000000", "3600"}},
	}
}

// respPipelines holds the numbers of commands that a client sends before it waits for the replies, with the goal for our rows: a
// fraction of what redis-server does.
func respPipelines() []struct {
	length int
	goal   float64
} {
	return []struct {
		length int
		goal   float64
	}{{64, 0.5}, {1, 0.7}}
}

// respTables compares our server with redis-server under redis-benchmark, each in a separate process.
func (r *run) respTables() ([]*table, error) {
	t := &table{
		title:   fmt.Sprintf("RESP: servers on loopback under redis-benchmark, %d connections", respConnections),
		columns: []string{"server", "pipeline", "requests/s", "to INCR", "spread", "server CPU µs", "p50 ms", "p99 ms", "goal"},
	}
	load, err := exec.LookPath("redis-benchmark")
	program, missing := exec.LookPath("redis-server")
	switch {
	case !r.measuresOwn():
		t.note("Left out: -only does not name %s.", own)
		return []*table{t}, nil
	case errors.Join(err, missing) != nil:
		t.note("Left out: redis-server or redis-benchmark is missing. Install the packages redis-server and redis-tools.")
		return []*table{t}, nil
	}
	theirs, err := startRedis(program)
	if err != nil {
		return nil, err
	}
	defer theirs.stop()
	ours, err := r.startProgram(nil)
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	servers := map[bool]respTarget{
		false: {strings.TrimPrefix(theirs.url, "redis://"), strconv.Itoa(theirs.cmd.Process.Pid)},
		true:  {ours.resp, ours.pid()},
	}
	for _, pipeline := range respPipelines() {
		if err := r.timeResp(t, load, servers, pipeline.length, pipeline.goal); err != nil {
			return nil, err
		}
	}
	t.note("Medians of %d rounds, the rows in turn; ratios are medians of those within a round. %s keys, each as likely as any other. "+
		"redis-benchmark has one thread, as has redis-server; ours has %d processors, and all share those of this machine. "+
		"Ours replies with six numbers, and INCR with one. On a busy machine ours gets a larger share of the processors than a server of "+
		"one thread: then look at its processor time, which Linux reports in steps of 10 ms, instead of the ratio.", r.respRounds(), count(respKeys), runtime.NumCPU())
	return []*table{t}, r.checkResp(ours.resp)
}

// respTarget is the address and the process of a server.
type respTarget struct{ address, process string }

// respSample holds the figures of one run of redis-benchmark.
type respSample struct{ rate, p50, p99, ratio, micros float64 }

// timeResp times all rows with one length of pipelines, and adds them to the table.
func (r *run) timeResp(t *table, load string, servers map[bool]respTarget, pipeline int, goal float64) error {
	rows := respRows()
	samples := make([][]respSample, len(rows))
	for round := range r.respRounds() + 1 {
		r.logf("resp: pipelines of %d: round %d of %d", pipeline, round, r.respRounds())
		now := make([]respSample, len(rows))
		for i := range rows {
			which := (i + round) % len(rows) // so that none is always first
			s, err := r.benchResp(load, servers[rows[which].ours], pipeline, rows[which].command)
			if err != nil {
				return fmt.Errorf("%s: %w", rows[which].name, err)
			}
			now[which] = s
		}
		for i := range now {
			now[i].ratio = now[i].rate / now[0].rate
			if round > 0 { // the first round fills the tables
				samples[i] = append(samples[i], now[i])
			}
		}
	}
	for i, row := range rows {
		of := func(value func(respSample) float64) (values []float64) {
			for _, s := range samples[i] {
				values = append(values, value(s))
			}
			return values
		}
		ratios := of(func(s respSample) float64 { return s.ratio })
		result := ""
		if row.ours {
			result = fmt.Sprintf("%.1fx: met", goal)
			if median(ratios) < goal {
				result = fmt.Sprintf("%.1fx: missed", goal)
			}
		}
		t.add(row.name, strconv.Itoa(pipeline), fmt.Sprintf("%.0f", median(of(func(s respSample) float64 { return s.rate }))),
			fmt.Sprintf("%.2fx", median(ratios)), fmt.Sprintf("%.2f-%.2f", slices.Min(ratios), slices.Max(ratios)),
			fmt.Sprintf("%.2f", median(of(func(s respSample) float64 { return s.micros }))),
			fmt.Sprintf("%.2f", median(of(func(s respSample) float64 { return s.p50 }))),
			fmt.Sprintf("%.2f", median(of(func(s respSample) float64 { return s.p99 }))), result)
	}
	return nil
}

// benchResp runs redis-benchmark once.
func (r *run) benchResp(load string, server respTarget, pipeline int, command []string) (respSample, error) {
	host, port, _ := strings.Cut(server.address, ":")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := []string{"-h", host, "-p", port, "-c", strconv.Itoa(respConnections), "-P", strconv.Itoa(pipeline),
		"-n", strconv.Itoa(r.respRequests(pipeline)), "-r", strconv.Itoa(respKeys), "--csv"}
	before := treeCPU(server.process)
	out, err := exec.CommandContext(ctx, load, append(args, command...)...).CombinedOutput()
	if err != nil {
		return respSample{}, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	worked := treeCPU(server.process) - before
	s, err := readRedisBenchmark(string(out))
	s.micros = float64(worked) / float64(time.Microsecond) / float64(r.respRequests(pipeline))
	return s, err
}

// readRedisBenchmark reads a table of one row, by the names of its columns.
func readRedisBenchmark(out string) (s respSample, err error) {
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 {
		return s, fmt.Errorf("redis-benchmark: cannot parse the output: %q", out)
	}
	for column, to := range map[string]*float64{"rps": &s.rate, "p50_latency_ms": &s.p50, "p99_latency_ms": &s.p99} {
		at := slices.Index(rows[0], column)
		if at < 0 {
			return s, fmt.Errorf("redis-benchmark: no column %q in %q", column, out)
		}
		if *to, err = strconv.ParseFloat(rows[1][at], 64); err != nil || *to < 0 {
			return s, fmt.Errorf("redis-benchmark: %q is not a number", rows[1][at])
		}
	}
	if s.rate == 0 {
		return s, fmt.Errorf("redis-benchmark: no replies: %q", out)
	}
	return s, nil
}

// checkResp checks that the commands were counted: a key must have used some of its quota.
func (r *run) checkResp(address string) error {
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var used int64
	for i := range 1000 {
		got, err := client.Do(ctx, "SG.PEEK", "default", fmt.Sprintf("key:%012d", i)).Int64Slice()
		if err != nil {
			return err
		}
		used += got[1] - got[2]
	}
	if used == 0 {
		r.fail("RESP: no key has used anything")
	}
	return nil
}

func (r *run) respRounds() int { return min(r.rounds, respRounds) }

// respRequests returns how many commands a run sends: about a second's worth.
func (r *run) respRequests(pipeline int) int {
	n := 1_000_000
	if pipeline == 1 {
		n = 100_000
	}
	if r.quick {
		n /= 20
	}
	return n
}
