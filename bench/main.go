// Command bench compares Slidegate with the rate limiters that Go programs use today: the same keys in the same order,
// in the same run, each library through its own public interface. It prints tables, with the ratio to the fastest peer.
// README.md says how each library is driven and how to read the figures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
)

func main() {
	if kind := os.Getenv(wireServerEnv); kind != "" {
		os.Exit(serveWire(kind, os.Stdin, os.Stdout))
	}
	os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
}

// Main is the whole program. It returns the exit status: 0, 1 if a check failed, 2 if the flags are invalid.
func Main(args []string, out, progress io.Writer) int {
	c, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	folder, err := os.MkdirTemp("", "slidegate-bench-")
	if err != nil {
		fmt.Fprintf(progress, "bench: %v\n", err)
		return 1
	}
	defer os.RemoveAll(folder)
	r := &run{config: c, out: out, progress: &lockedWriter{to: progress}, folder: folder}
	fmt.Fprintln(out, machine())
	if err := r.runScenarios(); err != nil {
		fmt.Fprintf(progress, "bench: %v\n", err)
		return 1
	}
	for _, failure := range r.failures {
		fmt.Fprintf(progress, "bench: FAIL: %s\n", failure)
	}
	if len(r.failures) > 0 {
		return 1
	}
	return 0
}

// lockedWriter is a writer that is safe for concurrent use.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write waits for other writes to finish, and writes.
func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// run is one run of the program.
type run struct {
	config
	out      io.Writer
	progress io.Writer
	folder   string   // temporary files of the run
	failures []string // failed checks, because of which the figures cannot be trusted
}

func (r *run) fail(format string, values ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, values...))
}

func (r *run) logf(format string, values ...any) {
	fmt.Fprintf(r.progress, "# "+format+"\n", values...)
}

// runScenarios runs the scenarios in turn, so that only one of them holds stores at any time.
func (r *run) runScenarios() error {
	r.floorTable().print(r.out, r.markdown)
	steps := []struct {
		names  []string
		tables func() ([]*table, error)
	}{
		{[]string{"hot"}, r.hotTables},
		{[]string{"rolling", "rolling-1"}, r.rollingTables(&rollingCases[0])},
		{[]string{"rolling", "rolling-10"}, r.rollingTables(&rollingCases[1])},
		{[]string{"rolling", "rolling-590"}, r.rollingTables(&rollingCases[2])},
		{[]string{"uniform", "zipf"}, r.manyKeysTables},
		{[]string{"memory", "gc"}, r.residentTables},
		{[]string{"memory"}, r.logTables},
		{[]string{"expiry"}, r.expiryTables},
		{[]string{"wait"}, r.waitTables},
		{[]string{"flood"}, r.floodTables},
		{[]string{"flood-service"}, r.floodServiceTables},
		{[]string{"flood-memory"}, r.floodMemoryTables},
		{[]string{"http"}, r.httpTables},
		{[]string{"wire"}, r.wireTables},
		{[]string{"redis"}, r.redisTables},
		{[]string{"redis-ways"}, r.redisWaysTables},
		{[]string{"default-redis"}, r.redisDefaultTables},
		{[]string{"default-pg"}, r.pgDefaultTables},
		{[]string{"default-nats"}, r.natsDefaultTables},
		{[]string{"resp"}, r.respTables},
		{[]string{"pg"}, r.pgTables},
		{[]string{"pg-ways"}, r.pgWaysTables},
		{[]string{"lease"}, r.leaseTables},
		{[]string{"lease-waste"}, r.leaseWasteTables},
		{[]string{"kv"}, r.kvTables},
		{[]string{"envoy"}, r.envoyTables},
		{[]string{"service"}, r.serviceTables},
		{[]string{"service-leases"}, r.serviceLeaseTables},
		{[]string{"state"}, r.stateThroughput},
		{[]string{"state-latency"}, r.stateLatency},
		{[]string{"state-synced"}, r.stateSynced},
		{[]string{"state-start"}, r.stateStart},
	}
	for _, step := range steps {
		if !r.wants(step.names...) {
			continue
		}
		tables, err := step.tables()
		if err != nil {
			return err
		}
		for _, t := range tables {
			t.print(r.out, r.markdown)
		}
	}
	return nil
}
