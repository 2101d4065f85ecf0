package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/pgtest"
)

// openTestPG starts a server for a test.
func openTestPG(t *testing.T) *pgServer {
	t.Helper()
	needPG(t)
	server, err := openPG(t.Context(), 8)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// needPG skips a test where PostgreSQL is missing, unless TEST_REQUIRE names it, and unsets the variable that names another server.
func needPG(t *testing.T) {
	t.Helper()
	pgtest.Shared(t)
	t.Setenv(pgURLEnv, "")
}

// Every limiter must admit the quota of a key and then refuse, or the comparison would not be fair.
func TestPGRowsAdmitTheQuota(t *testing.T) {
	server := openTestPG(t)
	defer server.close()
	const quota = 20
	for i, row := range pgRows() {
		for _, durable := range []bool{true, false} {
			t.Run(row.name+" "+durability(durable), func(t *testing.T) {
				some := newKeys(10*i, 2) // each as if used once
				for _, fill := range []func(context.Context, *pgServer, bool, keys) error{fillSlidegatePG, fillTransaction, fillUpdate} {
					if err := fill(t.Context(), server, durable, some); err != nil {
						t.Fatal(err)
					}
				}
				allow, err := row.open(server, spec{quota: quota, window: time.Hour}, durable)
				if err != nil {
					t.Fatal(err)
				}
				for n := 1; n < 2*quota; n++ {
					want := n < quota || row.name == rowUpdateAlone // which counts and limits nothing
					if got, err := allow(t.Context(), some.at(0)); err != nil || got != want {
						t.Fatalf("request %d: admitted %v, %v", n, got, err)
					}
				}
				if got, err := allow(t.Context(), some.at(1)); err != nil || !got {
					t.Errorf("another key: admitted %v, %v", got, err)
				}
			})
		}
	}
}

// The published limiter must slide, or the comparison would not be fair: half of the previous window counts half.
func TestPGWindowSlides(t *testing.T) {
	s := spec{quota: 10, window: time.Hour}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after    time.Duration
		admitted int // of 20 requests at once, after 8 in the window that begins at start
	}{
		{30 * time.Minute, 2}, {time.Hour, 2}, {90 * time.Minute, 6}, {2 * time.Hour, 10},
	} {
		w, admitted := pgWindow{start: start, current: 8}, 0
		for range 20 {
			if w.take(start.Add(c.after), s) {
				admitted++
			}
		}
		if admitted != c.admitted {
			t.Errorf("after %v: %d, want %d", c.after, admitted, c.admitted)
		}
	}
}

// A limiter that returns an error must end the run: a decision that was not made does not count as fast.
func TestPGErrorsEndTheRun(t *testing.T) {
	server := openTestPG(t)
	defer server.stop()
	var limiters []remoteAllow
	for _, row := range pgRows() {
		allow, err := row.open(server, spec{quota: 1, window: time.Hour}, true)
		if err != nil {
			t.Fatal(err)
		}
		limiters = append(limiters, allow)
	}
	server.end()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i, row := range pgRows() {
		crew := newCrew(2)
		err := crew.run(func(_ int, c *caller) error { return c.send(ctx, limiters[i], "key") })
		if got := crew.sample(time.Second); err == nil || got.requests != 0 {
			t.Errorf("%s: got %v and %d decisions, want an error and none", row.name, err, got.requests)
		}
	}
}

// An existing schema must neither be dropped nor used.
func TestPGInUseIsRefused(t *testing.T) {
	theirs := pgtest.Shared(t)
	theirs.Exec("CREATE SCHEMA "+pgSchema, "CREATE TABLE "+pgSchema+".precious (n int)")
	t.Setenv(pgURLEnv, theirs.URL())
	var out, progress bytes.Buffer
	if status := Main([]string{"-quick", "-scenario", "pg"}, &out, &progress); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if !strings.Contains(progress.String(), "the schema slidegate_bench must not exist") {
		t.Errorf("got %q, want an error about the schema", progress.String())
	}
	theirs.Exec("SELECT * FROM " + pgSchema + ".precious")
}

// A database that was not started by this program is left as it was.
func TestPGDropsItsSchema(t *testing.T) {
	theirs := pgtest.Shared(t)
	t.Setenv(pgURLEnv, theirs.URL())
	server, err := openPG(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Exec("SELECT * FROM " + windowTable(true))
	server.close()
	theirs.Exec("CREATE SCHEMA " + pgSchema) // fails if it still exists
}

func TestPGIsLeftOut(t *testing.T) {
	var out, progress bytes.Buffer
	if status := Main([]string{"-quick", "-scenario", "pg", "-only", "tollbooth"}, &out, &progress); status != 0 {
		t.Errorf("got exit status %d, want 0\n%s", status, progress.String())
	}
	if want := "Left out: -only names no limiter"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, out.String())
	}
}

// The goals apply to the documented rows and numbers of callers.
func TestPGGoals(t *testing.T) {
	loads := pgLoads()
	many, hot, refused := loads[0], loads[1], loads[2]
	single, together := &pgRow{name: alone, family: own}, &pgRow{name: "slidegate, coalesce 2", family: own}
	for i, c := range []struct {
		row                     *pgRow
		load                    pgLoad
		callers                 int
		toTransaction, toUpdate float64
		want                    string
	}{
		{single, many, 1, 1.5, 0.1, "1.5x transaction: met"},
		{single, hot, 1, 1.49, 9, "1.5x transaction: missed"},
		{single, many, 64, 9, 9, ""},
		{together, many, 64, 3.5, 1, "3.5x transaction: met"},
		{together, many, 64, 3.49, 9, "3.5x transaction: missed"},
		{together, hot, 64, 30, 10, "30x transaction: met, 10x UPDATE: met"},
		{together, hot, 64, 29.9, 10, "30x transaction: missed, 10x UPDATE: met"},
		{together, hot, 64, 30, 9.99, "30x transaction: met, 10x UPDATE: missed"},
		{together, hot, 64, 0, 10, "10x UPDATE: met"},
		{together, many, 16, 1, 1, ""},
		{together, refused, 64, 1, 1, ""},
		{&pgRow{name: rowTransaction, family: "pg-transaction"}, many, 64, 1, 1, ""},
	} {
		if got := c.row.goalResult(c.load, c.callers, c.toTransaction, c.toUpdate); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

// Ratios are taken within rounds: here 2, 3 and 10, while the medians of the rates are 30 and 3.
func TestPGRatios(t *testing.T) {
	of := func(rates ...float64) (s remoteSamples) {
		for _, rate := range rates {
			s = append(s, remoteSample{perSecond: rate})
		}
		return s
	}
	if got := of(2, 30, 30).ratioTo(of(1, 10, 3)); got != 3 {
		t.Errorf("%v, want 3", got)
	}
	if got := of(2).ratioTo(nil); got != 0 {
		t.Errorf("%v, want 0", got)
	}
}

func TestPGCallers(t *testing.T) {
	for _, c := range []struct{ given, want []int }{
		{[]int{1, 16, 64, 256}, []int{1, 16, 64}}, {[]int{256}, []int{64}}, {[]int{7}, []int{7}},
	} {
		r := &run{config: config{callers: c.given}}
		if got := r.pgCallers(); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v gives %v, want %v", c.given, got, c.want)
		}
	}
}

func TestReadStat(t *testing.T) {
	// As Linux writes it: 150 ticks in the program and 25 in the system, of the 12th and 13th field after the name.
	parent, worked, ok := readStat("42 (a (b) c) S 7 42 42 0 -1 4194560 1 0 0 0 150 25 9 9 20 0 1 0 100")
	if parent != "7" || worked != 1750*time.Millisecond || !ok {
		t.Errorf("readStat = parent %s, worked %v, %v; want 7, 1.75s, true", parent, worked, ok)
	}
	for _, text := range []string{"", "42 (a) S 7", "42 (a) S 7 42 42 0 -1 4194560 1 0 0 0 x 25 9"} {
		if _, _, ok := readStat(text); ok {
			t.Errorf("%q is read", text)
		}
	}
}

// The CPU time is read if Linux reports it, and only of a server that this program started.
func TestPGServerCPUTime(t *testing.T) {
	server := openTestPG(t)
	defer server.close()
	before, err := server.cpu(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before == 0 {
		t.Skip("SKIPPED: the system does not report the CPU time of processes")
	}
	if _, err := server.pool.Exec(t.Context(), "SELECT sum(i) FROM generate_series(1, 2000000) i"); err != nil {
		t.Fatal(err)
	}
	if after, err := server.cpu(t.Context()); err != nil || after <= before {
		t.Errorf("got CPU time %v after a query, %v, want more than %v", after, err, before)
	}
}
