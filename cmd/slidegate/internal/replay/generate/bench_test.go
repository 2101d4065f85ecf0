package generate

import (
	"context"
	"io"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// endless returns traffic that a benchmark does not exhaust.
func endless(b *testing.B, s Shape) *Traffic {
	b.Helper()
	t, err := New(Options{Shape: s, Requests: 50_000_000, MaxCost: 1})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func BenchmarkNext(b *testing.B) {
	for _, s := range Shapes() {
		b.Run(s.String(), func(b *testing.B) {
			b.ReportAllocs()
			t := endless(b, s)
			var line traffic.Line
			for b.Loop() {
				if t.Next(&line) == io.EOF {
					b.StopTimer()
					t = endless(b, s)
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, format := range []struct {
		name  string
		write func(context.Context, io.Writer, *Traffic) error
	}{{"lines", WriteLines}, {"combined", WriteCombined}} {
		b.Run(format.name, func(b *testing.B) {
			const requests = 200_000
			b.ReportAllocs()
			for b.Loop() {
				t, err := New(Options{Requests: requests})
				if err != nil {
					b.Fatal(err)
				}
				if err := format.write(context.Background(), io.Discard, t); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(requests*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
