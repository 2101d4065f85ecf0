package gate

import (
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func points(t *testing.T, h *Latency) []metricdata.HistogramDataPoint[float64] {
	t.Helper()
	all, err := h.Produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints
}

// Every duration is in the bucket that Prometheus expects: a duration equal to a bound is below it.
func TestBuckets(t *testing.T) {
	h := NewLatency()
	of := h.Of(HTTP)
	if h.Of(HTTP) != of || h.Of(RESP) == of {
		t.Fatal("want one histogram per listener")
	}
	for _, took := range []time.Duration{0, 10 * time.Microsecond, 10*time.Microsecond + 1, time.Second, 3 * time.Second} {
		of.Record(took)
	}
	for _, p := range points(t, h) {
		if listener, _ := p.Attributes.Value("listener"); listener.AsString() == "resp" {
			if p.Count != 0 {
				t.Errorf("before any decision: got %+v, want zero counts", p)
			}
			continue
		}
		want := make([]uint64, len(p.Bounds)+1)
		want[0], want[1], want[slices.Index(p.Bounds, 1.0)], want[len(p.Bounds)] = 2, 1, 1, 1
		if !slices.Equal(p.BucketCounts, want) || p.Count != 5 || p.Sum < 4.00002 || p.Sum > 4.00003 {
			t.Errorf("got %+v, want the buckets %v", p, want)
		}
	}
}

// Nothing is lost when several goroutines record at the same time, and nothing is allocated.
func TestRecord(t *testing.T) {
	h := NewLatency()
	of := h.Of(HTTP)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10_000 {
				of.Record(time.Millisecond)
			}
		})
	}
	all.Wait()
	if p := points(t, h)[0]; p.Count != 40_000 || p.Sum < 39.99 || p.Sum > 40.01 {
		t.Errorf("got %d in %v s, want 40000 in 40 s", p.Count, p.Sum)
	}
	if n := testing.AllocsPerRun(100, func() { of.Record(time.Millisecond) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	of := NewLatency().Of(HTTP)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			of.Record(50 * time.Microsecond)
		}
	})
}

// BenchmarkTimed measures the whole cost of timing a decision.
func BenchmarkTimed(b *testing.B) {
	of := NewLatency().Of(HTTP)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		of.Record(time.Since(began))
	}
}
