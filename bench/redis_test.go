package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// openTestRedis starts a server for a test.
func openTestRedis(t *testing.T) *redisServer {
	t.Helper()
	need(t, "redis-server")
	t.Setenv(redisURLEnv, "")
	server, err := openRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// Every limiter must admit the quota of a key and then refuse, or the comparison would not be fair.
func TestRedisRowsAdmitTheQuota(t *testing.T) {
	server := openTestRedis(t)
	defer server.close()
	const quota = 20
	for _, row := range redisRows() {
		t.Run(row.name, func(t *testing.T) {
			if err := server.empty(t.Context()); err != nil {
				t.Fatal(err)
			}
			allow, err := row.open(server, spec{quota: quota, window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 * quota {
				if got, err := allow(t.Context(), "one"); err != nil || got != (i < quota) {
					t.Fatalf("request %d: admitted %v, %v", i, got, err)
				}
			}
			if got, err := allow(t.Context(), "other"); err != nil || !got {
				t.Errorf("another key: got %v, %v, want admitted", got, err)
			}
			// Each key has a state in Redis, and no row decides from memory.
			if n, err := server.admin.DBSize(t.Context()).Result(); err != nil || n != 2 {
				t.Errorf("got %d keys in Redis, %v, want 2", n, err)
			}
		})
	}
}

// A limiter that returns an error must end the run: a decision that was not made does not count as fast.
func TestRedisErrorsEndTheRun(t *testing.T) {
	server := openTestRedis(t)
	defer server.close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var limiters []remoteAllow
	for _, row := range redisRows() {
		allow, err := row.open(server, spec{quota: 1, window: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		limiters = append(limiters, allow)
	}
	server.process.stop()
	for i, row := range redisRows() {
		crew := newCrew(2)
		err := crew.run(func(_ int, c *caller) error { return c.send(ctx, limiters[i], "key") })
		if got := crew.sample(time.Second); err == nil || got.requests != 0 {
			t.Errorf("%s: got %v and %d decisions, want an error and none", row.name, err, got.requests)
		}
	}
}

func TestRedisServerRemovesItsFolder(t *testing.T) {
	server := openTestRedis(t)
	process := server.process
	if _, err := os.Stat(process.folder); err != nil {
		t.Error(err)
	}
	server.close()
	if process.cmd.ProcessState == nil {
		t.Error("the server still runs")
	}
	if _, err := os.Stat(process.folder); !os.IsNotExist(err) {
		t.Errorf("its folder: got %v, want that it does not exist", err)
	}
}

// A database with keys must neither be emptied nor used.
func TestRedisInUseIsRefused(t *testing.T) {
	server := openTestRedis(t)
	defer server.close()
	if err := server.admin.Set(t.Context(), "theirs", "precious", 0).Err(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(redisURLEnv, server.process.url)
	var out, progress bytes.Buffer
	if status := Main([]string{"-quick", "-scenario", "redis"}, &out, &progress); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if !strings.Contains(progress.String(), "has 1 keys and would be emptied") {
		t.Errorf("got %q, want an error about the key in the database", progress.String())
	}
	if got, err := server.admin.Get(t.Context(), "theirs").Result(); got != "precious" {
		t.Errorf("the key is %q, %v", got, err)
	}
}

func TestRedisIsLeftOut(t *testing.T) {
	t.Setenv(redisURLEnv, "")
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct{ only, want string }{
		{"", "Left out: redis-server is missing"},
		{"tollbooth", "Left out: -only names no limiter"},
	} {
		var out, progress bytes.Buffer
		if status := Main([]string{"-quick", "-scenario", "redis", "-only", c.only}, &out, &progress); status != 0 {
			t.Errorf("got exit status %d, want 0\n%s", status, progress.String())
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%q is not in\n%s", c.want, out.String())
		}
	}
}

func TestOnlySelectsRedisRows(t *testing.T) {
	r := &run{config: config{only: []string{"sorted-set", "redis_rate"}}}
	var names []string
	for _, row := range r.redisRows() {
		names = append(names, row.name)
	}
	if want := []string{"redis_rate", "redis_rate, piped", "sorted set", rowIncrAlone}; !slices.Equal(names, want) {
		t.Errorf("the rows are %q, want %q", names, want)
	}
}

// redisInfo is the reply of Redis 7 to INFO cpu.
const redisInfo = "# CPU\r\nused_cpu_sys:1.250000\r\nused_cpu_user:2.500000\r\nused_cpu_sys_children:16.000000\r\n" +
	"used_cpu_user_children:32.000000\r\nused_cpu_sys_main_thread:1.000000\r\nused_cpu_user_main_thread:2.000000\r\n"

func TestReadRedisCPU(t *testing.T) {
	if got, err := readRedisCPU(redisInfo); got != 3750*time.Millisecond || err != nil {
		t.Errorf("readRedisCPU = %v, %v, want 3.75s", got, err)
	}
	if got, err := readRedisCPU("# CPU\r\nused_cpu_sys:1.25\r\n"); err == nil {
		t.Errorf("%v without an error", got)
	}
}

func TestReadRedisCommands(t *testing.T) {
	const info = "# Commandstats\r\ncmdstat_set:calls=20,usec=30,usec_per_call=1.50\r\ncmdstat_config|get:calls=1,usec=9\r\n"
	if got, err := readRedisCommands(info); got != 21 || err != nil {
		t.Errorf("readRedisCommands = %d, %v, want 21", got, err)
	}
	if got, err := readRedisCommands("cmdstat_set:calls=many,usec=30\r\n"); err == nil {
		t.Errorf("%d without an error", got)
	}
}

func TestRedisGoals(t *testing.T) {
	rates := map[string]float64{"slidegate": 150, "redis_rate": 80, "redis_rate, piped": 120, "sorted set": 100, rowIncrAlone: 400}
	rows := slices.DeleteFunc(redisRows(), func(row redisRow) bool { return rates[row.name] == 0 })
	best := redisBest(rows, func(row *redisRow) float64 { return rates[row.name] })
	if best != (redisRates{peer: 100, atomicPeer: 80, piped: 120, incr: 400}) {
		t.Fatalf("the best rates are %+v, want peer 100, atomicPeer 80, piped 120, incr 400", best)
	}
	for _, c := range []struct {
		callers int
		rate    float64
		want    string
	}{
		{1, 80, "1x atomic peer: met"},
		{1, 79, "1x atomic peer: missed"},
		{16, 1, ""},
		{64, 200, "1.5x peer: met, 0.5x INCR: met"},
		{64, 150, "1.5x peer: met, 0.5x INCR: missed"},
		{64, 149, "1.5x peer: missed, 0.5x INCR: missed"},
		{256, 300, "3x peer: met"},
		{256, 299, "3x peer: missed"},
	} {
		if got := rows[0].goalResult(c.rate, best, c.callers); got != c.want {
			t.Errorf("%d callers, %g: got %q, want %q", c.callers, c.rate, got, c.want)
		}
	}
	if got := rows[1].goalResult(1, best, 64); got != "" {
		t.Errorf("a peer has the goal %q", got)
	}
	if got := rows[0].goalResult(1, redisRates{incr: 2}, 64); got != "0.5x INCR: met" {
		t.Errorf("without peers: got %q, want \"0.5x INCR: met\"", got)
	}
}

// A limiter that admits what must be refused must fail the run, since its time would be misleading.
func TestWrongRedisDecisionsFailTheRun(t *testing.T) {
	r := &run{config: config{rounds: 2}}
	rows := []redisRow{{name: "right", family: "other"}, {name: "wrong", family: "other"}}
	samples := map[redisCell]remoteSamples{
		{"right", "refused", 64}: {{requests: 10}, {requests: 10}},
		{"wrong", "refused", 64}: {{requests: 10}, {requests: 10, passed: 1}},
	}
	r.redisTable(rows, redisLoad{"refused", 1, 0}, 64, samples)
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "wrong: 0.0500") {
		t.Errorf("got failures %q, want one about the wrong row", r.failures)
	}
}

// What the callers saw adds up to the figures of a sample.
func TestCrewSample(t *testing.T) {
	crew := newCrew(2)
	for i := range crew.callers {
		c := &crew.callers[i]
		c.requests, c.passed = 100, int64(i)*100
		for range 99 {
			c.waits.add(50 * time.Microsecond)
		}
		c.waits.add(time.Second)
	}
	s := crew.sample(4 * time.Second)
	if s.requests != 200 || s.passed != 100 || s.perSecond != 50 {
		t.Errorf("got %+v, want 200 requests, 100 passed, 50 per second", s)
	}
	// Buckets are at most 1.6 % too high.
	for _, wait := range []float64{s.p50Micros, s.p99Micros} {
		if wait < 50 || wait > 50.8 {
			t.Errorf("a wait of %g µs, want 50 to 50.8", wait)
		}
	}
}
