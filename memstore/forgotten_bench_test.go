//go:build unix

package memstore

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/summary"
	"github.com/slidegate/slidegate/rule"
)

// BenchmarkForgotten floods a memory with keys and reports the percentage of other keys that it then mistakes for one of
// them, the bytes that it has taken, and the processor time of remembering and recalling. Run it with -benchtime 1x.
func BenchmarkForgotten(b *testing.B) {
	limit, err := rule.Limit{Algorithm: rule.SlidingLog, Quota: 3, Window: 60 * second}.Normalize()
	if err != nil {
		b.Fatal(err)
	}
	for _, keys := range []int{1e6, 3e6, 10e6, 30e6} {
		for _, megabytes := range []int64{4, 8, 16, 32, 64, 128} {
			b.Run(fmt.Sprintf("%dM/%dMB", keys/1e6, megabytes), func(b *testing.B) {
				for b.Loop() {
					flood(b, limit, keys, megabytes<<20)
				}
			})
		}
	}
}

func flood(b *testing.B, limit rule.Limit, keys int, room int64) {
	f := (&budget{left: room}).memory(limit)
	rng := rand.New(rand.NewPCG(1, 8))
	now := rule.Micros(today)
	begin := processorTime(b)
	for i := range keys {
		now = today + rule.Micros(i)*limit.Window/2/rule.Micros(keys)
		f.remember(rng.Uint64(), summary.Summary{Units: limit.Quota, At: now, Expires: now + limit.Window}, now)
	}
	remembered := processorTime(b)
	const strangers = 1e6
	matched := 0
	for range int(strangers) {
		if _, found := f.recall(rng.Uint64(), now); found {
			matched++
		}
	}
	recalled := processorTime(b)
	b.ReportMetric(100*float64(matched)/strangers, "%matched")
	b.ReportMetric(float64(f.bytes())/(1<<20), "MB")
	b.ReportMetric(float64(len(f.layers)), "layers")
	b.ReportMetric(float64((remembered-begin).Nanoseconds())/float64(keys), "ns/remember")
	b.ReportMetric(float64((recalled-remembered).Nanoseconds())/strangers, "ns/recall")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time of this process, whatever else runs on the machine.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
