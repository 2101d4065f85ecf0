package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// These tests check that a replay ends correctly, whatever happens. They run in a synctest bubble, which fails if a
// goroutine is left behind or all of them are blocked.

// failingTraffic is traffic that ends with err, if it is not nil.
type failingTraffic struct {
	list
	with error
}

func (f *failingTraffic) Next(line *traffic.Line) error {
	err := f.list.Next(line)
	if err == io.EOF && f.with != nil {
		return f.with
	}
	return err
}

// endlessTraffic is traffic without an end, up to a bound for the test. It calls reached when a given number of requests has
// been read.
type endlessTraffic struct {
	read    int64
	at      int64
	reached func()
	text    []byte
}

func (e *endlessTraffic) Next(line *traffic.Line) error {
	if e.read++; e.read == e.at {
		e.reached()
	}
	if e.read > 300_000 {
		return errors.New("the traffic was not stopped")
	}
	e.text = fmt.Appendf(e.text[:0], "%d", origin+rule.Micros(e.read)*milli)
	*line = traffic.Line{At: origin + rule.Micros(e.read)*milli, Key: e.text[len(e.text)-5 : len(e.text)-3], Cost: 1, Time: e.text}
	return nil
}

var errDisk = errors.New("the disk is full")

// brokenWriter fails on every write.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errDisk }

// fullWriter accepts a limited number of bytes.
type fullWriter struct{ left int }

func (w *fullWriter) Write(b []byte) (int, error) {
	if len(b) > w.left {
		n := w.left
		w.left = 0
		return n, errDisk
	}
	w.left -= len(b)
	return len(b), nil
}

// allOptions returns options that enable everything.
func allOptions() Options {
	return Options{
		Limits:  []slidegate.Limit{slidegate.MustParseLimit("3/1s"), slidegate.MustParseLimit("100/1m sliding-log")},
		Compare: true, Sweep: []int64{1, 2, 3, 5, 8}, Suggest: true, Percent: 10, Top: 5, Sort: time.Second,
	}
}

// checkSum checks that every request that was read was also decided.
func checkSum(t *testing.T, found *Findings) {
	t.Helper()
	sums := []int64{found.Outcome.Admitted + found.Outcome.Refused, found.Outcome.UnitsAdmitted + found.Outcome.UnitsRefused}
	var drawn Bucket
	for _, bucket := range found.Timeline.Buckets {
		drawn.Admitted += bucket.Admitted
		drawn.Refused += bucket.Refused
	}
	if want := (Bucket{found.Outcome.Admitted, found.Outcome.Refused}); drawn != want {
		t.Errorf("got timeline %+v, want %+v", drawn, want)
	}
	for _, rival := range found.Compare {
		sums = append(sums, rival.Admitted+rival.Refused)
	}
	for _, point := range found.Sweep.Points {
		sums = append(sums, point.Admitted+point.Refused)
	}
	for _, sum := range sums {
		if sum != found.Traffic.Requests {
			t.Errorf("got decisions on %d of %d requests, want all", sum, found.Traffic.Requests)
		}
	}
}

func TestInterrupted(t *testing.T) {
	folder := ownTemp(t)
	for _, at := range []int64{1, 31, 32, 33, 4096, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var out bytes.Buffer
			opts := allOptions()
			opts.Decisions = &out
			found, err := Run(ctx, &endlessTraffic{at: at, reached: cancel}, opts)
			if !errors.Is(err, context.Canceled) || found == nil || !found.Interrupted {
				t.Fatalf("got %v, %+v, want context.Canceled and interrupted findings", err, found)
			}
			if n := found.Traffic.Requests; n < at || n > at+checkEvery {
				t.Errorf("got %d more requests after %d, want it to end sooner", n-at, at)
			}
			checkSum(t, found)
			if lines := int64(bytes.Count(out.Bytes(), []byte("\n"))); lines != found.Traffic.Requests {
				t.Errorf("got %d decisions, want %d", lines, found.Traffic.Requests)
			}
		})
	}
	checkNothingLeft(t, folder)
}

func TestCancelledBeforeStart(t *testing.T) {
	ownTemp(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		found, err := Run(ctx, &endlessTraffic{}, allOptions())
		if !errors.Is(err, context.Canceled) || found == nil || !found.Interrupted {
			t.Fatalf("got %v, %+v, want context.Canceled and interrupted findings", err, found)
		}
		if found.Traffic.Requests > checkEvery {
			t.Errorf("got %d requests, want at most %d", found.Traffic.Requests, checkEvery)
		}
	})
}

// The context is cancelled during the second pass.
func TestInterruptedInSecondPass(t *testing.T) {
	folder := ownTemp(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var reqs []testRequest
		for i := range rule.Micros(10_000) {
			reqs = append(reqs, testRequest{origin + i*milli, "a", 1})
		}
		opts := allOptions()
		opts.Progress = func(requests int64) {
			if requests == 10_000 { // all have been read
				cancel()
			}
		}
		found, err := Run(ctx, &list{rest: reqs}, opts)
		if found == nil || found.Traffic.Requests != 10_000 || found.Interrupted {
			t.Fatalf("got %v, %+v; want all 10,000 requests", err, found)
		}
		checkSum(t, found)
		if !errors.Is(err, context.Canceled) || found.Suggestion != nil {
			t.Errorf("got %v and %v, want context.Canceled and no suggestion", err, found.Suggestion)
		}
	})
	checkNothingLeft(t, folder)
}

func TestReaderError(t *testing.T) {
	folder := ownTemp(t)
	failed := errors.New("gzip: invalid checksum")
	for _, n := range []int64{0, 1, 32, 4096, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			var reqs []testRequest
			for i := range n {
				reqs = append(reqs, testRequest{origin + rule.Micros(i)*milli, "a", 1})
			}
			found, err := Run(context.Background(), &failingTraffic{list: list{rest: reqs}, with: failed}, allOptions())
			if !errors.Is(err, failed) || err.Error() != failed.Error() {
				t.Fatalf("got %v, want the reader's error", err)
			}
			if n == 0 {
				if found != nil {
					t.Errorf("got %+v, want no findings", found)
				}
				return
			}
			if !found.Interrupted || found.Traffic.Requests != n || found.Suggestion == nil {
				t.Errorf("got %+v, want the findings of %d requests, with Interrupted set", found, n)
			}
			checkSum(t, found)
		})
	}
	checkNothingLeft(t, folder)
}

// A full disk ends the replay, with its error reported once.
func TestDecisionsWriteError(t *testing.T) {
	folder := ownTemp(t)
	for _, size := range []int{0, 1, 1 << 18, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			opts := allOptions()
			opts.Decisions = &fullWriter{left: size}
			lines := &endlessTraffic{}
			found, err := Run(context.Background(), lines, opts)
			if lines.read > 100_000 {
				t.Errorf("got %d requests before it ended, want fewer", lines.read)
			}
			if !errors.Is(err, errDisk) || found == nil || !found.Interrupted {
				t.Fatalf("got %v, %+v, want errDisk and interrupted findings", err, found)
			}
			if want := "replay: Decisions: the disk is full"; err.Error() != want {
				t.Errorf("got error %q, want %q", err, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // so little output that the error only occurs at the final flush
		opts := allOptions()
		opts.Decisions = brokenWriter{}
		found, err := Run(context.Background(), &list{rest: []testRequest{{origin, "a", 1}}}, opts)
		if !errors.Is(err, errDisk) || found == nil || found.Outcome.Admitted != 1 {
			t.Fatalf("got %v, %+v, want errDisk and one request admitted", err, found)
		}
	})
	checkNothingLeft(t, folder)
}

func TestNoRequests(t *testing.T) {
	folder := ownTemp(t)
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		opts := allOptions()
		opts.Decisions = &out
		if found, err := Run(context.Background(), &list{}, opts); found != nil || err != nil || out.Len() != 0 {
			t.Errorf("got %+v, %v, %q; want no findings and no output", found, err, out.String())
		}
	})
	checkNothingLeft(t, folder)
}

// With everything enabled, over many batches, the findings are the same as with each option alone, and the same every
// time.
func TestOptionsAreIndependent(t *testing.T) {
	ownTemp(t)
	var reqs []testRequest
	for i := range rule.Micros(12_000) {
		reqs = append(reqs, testRequest{origin + i*milli - i*i%77*milli, fmt.Sprintf("key-%d", i*i%50), 1 + int64(i%7/6)})
	}
	synctest.Test(t, func(t *testing.T) {
		opts := allOptions()
		all := find(t, opts, reqs)
		if again := find(t, opts, reqs); !reflect.DeepEqual(all, again) {
			t.Errorf("got the second time:\n%+v, want as the first time:\n%+v", again, all)
		}
		checkTraffic(t, all, reqs)
		plain := find(t, Options{Limits: opts.Limits, Top: opts.Top, Sort: opts.Sort}, reqs)
		if !reflect.DeepEqual(plain.Outcome, all.Outcome) || !reflect.DeepEqual(plain.Timeline, all.Timeline) {
			t.Errorf("got alone:\n%+v, want as with others:\n%+v", plain.Outcome, all.Outcome)
		}
		opts.Compare, opts.Sweep = false, nil
		if suggested := find(t, opts, reqs); !reflect.DeepEqual(suggested.Suggestion, all.Suggestion) || all.Suggestion == nil {
			t.Errorf("got alone:\n%+v, want as with others:\n%+v", suggested.Suggestion, all.Suggestion)
		}
	})
}

func checkTraffic(t *testing.T, found *Findings, reqs []testRequest) {
	t.Helper()
	want := Traffic{Requests: int64(len(reqs)), From: reqs[0].at, To: reqs[0].at}
	keys := map[string]bool{}
	for _, a := range reqs {
		want.Units += a.cost
		want.From, want.To = min(want.From, a.at), max(want.To, a.at)
		keys[a.key] = true
	}
	want.Keys = int64(len(keys))
	requests, _ := numbered(reqs)
	want.Order = plainOrderQuick(requests)
	if found.Traffic != want {
		t.Errorf("got %+v, want %+v", found.Traffic, want)
	}
}

func TestTrafficByHand(t *testing.T) {
	long := strings.Repeat("a long key, and ", 5_000)
	reqs := []testRequest{
		{origin + 5, long + "one", 3}, {origin + 9, "", 1}, {origin + 2, long + "another", 0}, {origin + 7, long + "one", 1},
		{origin + 9, long + "one", 1}, {origin + 8, "", 1},
	}
	for sort, late := range map[time.Duration]int64{0: 3, time.Second: 0} {
		found := find(t, Options{Limits: []slidegate.Limit{slidegate.PerSecond(3)}, Top: 2, Sort: sort}, reqs)
		want := Traffic{
			Requests: 6, Units: 7, Keys: 3, From: origin + 2, To: origin + 9,
			Order: Order{OutOfOrder: 3, Furthest: 7, TooLate: late},
		}
		if found.Traffic != want {
			t.Errorf("sorted by %v: got %+v, want %+v", sort, found.Traffic, want)
		}
		if top := found.Outcome.TopRefused; len(top) != 1 || top[0].Key != long+"one" || top[0].Refused != 2 || top[0].Requests != 3 {
			t.Errorf("sorted by %v: got top %.200v, want the first key, refused 2 of 3", sort, top)
		}
	}
}

func TestProgress(t *testing.T) {
	var reported []int64
	reqs := make([]testRequest, 30_000)
	for i := range reqs {
		reqs[i] = testRequest{origin + rule.Micros(i), "a", 1}
	}
	find(t, Options{Limits: []slidegate.Limit{slidegate.PerSecond(1)}, Progress: func(n int64) { reported = append(reported, n) }}, reqs)
	if len(reported) < 3 || !slices.IsSorted(reported) || reported[len(reported)-1] != 30_000 {
		t.Errorf("got %v, want several increasing numbers up to 30,000", reported)
	}
}

func TestOptionsCheck(t *testing.T) {
	limit, other := slidegate.PerMinute(100), slidegate.PerHour(100)
	bucket := slidegate.MustParseLimit("5/1s token-bucket")
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Limits: []slidegate.Limit{limit, other, bucket}}, ""},
		{Options{}, "replay: Limits: must not be empty; give at least one limit, such as 100/1m"},
		{Options{Limits: []slidegate.Limit{{}}}, "replay: Limits: invalid limit: quota: must be 1 to 9007199254740991, not 0"},
		{Options{Limits: []slidegate.Limit{limit, other, limit}}, "replay: Limits: duplicate limit 100/1m; remove one"},
		{Options{Limits: []slidegate.Limit{limit}, Suggest: true, Percent: 100}, ""},
		{Options{Limits: []slidegate.Limit{limit}, Suggest: true, Percent: 100.5}, "replay: Percent: must be a percentage of keys from 0 to 100, not 100.5"},
		{Options{Limits: []slidegate.Limit{limit}, Suggest: true, Percent: -1}, "replay: Percent: must be a percentage of keys from 0 to 100, not -1"},
		{Options{Limits: []slidegate.Limit{bucket}, Suggest: true, Sweep: []int64{1}}, ""},
		{Options{Limits: []slidegate.Limit{bucket}, Suggest: true}, "replay: Suggest: a token bucket refills at the rate of its quota, so a quota can only be chosen from a sweep; add one, such as 10..1000"},
		{Options{Limits: []slidegate.Limit{limit}, Sort: -1}, "replay: Sort: must not be negative, got -1ns"},
	} {
		err := c.opts.Check()
		if text := fmt.Sprint(err); text != c.want && !(err == nil && c.want == "") {
			t.Errorf("%+v: got %v, want %q", c.opts, err, c.want)
		}
		if _, ran := Run(context.Background(), &list{}, c.opts); fmt.Sprint(ran) != fmt.Sprint(err) {
			t.Errorf("%+v: Run returned %v", c.opts, ran)
		}
	}
}

// Options that would fail later are rejected at the start.
func TestOptionsCheckRejectsEarly(t *testing.T) {
	limit := slidegate.PerMinute(100)
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Limits: []slidegate.Limit{limit, slidegate.PerMinute(50)}}, "50/1m"}, // the same address: a limiter rejects it too
		{Options{Limits: []slidegate.Limit{limit}, Top: -1}, "replay: Top: "},
		{Options{Limits: []slidegate.Limit{limit}, Sweep: []int64{5, 4}}, "replay: Sweep: "},
	} {
		if err := c.opts.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want an error with %q", c.opts, err, c.want)
		}
	}
}
