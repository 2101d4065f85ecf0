package gate_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
)

// BenchmarkSeen measures the processor time that a decision takes with and without what package seen remembers, in turns, over memory: a
// decision over a network takes a hundred times as long. With a flood, no key comes twice.
func BenchmarkSeen(b *testing.B) {
	for _, name := range []string{"1024 keys", "flood"} {
		b.Run(name, func(b *testing.B) {
			gates := [2]*gate.Gate{}
			for i, opts := range []gate.Options{{}, {Seen: seen.NewRecord(time.Now)}} {
				gates[i] = newGate(b, benchStore(b), opts, policyOf("p", "1000000/1h"))
			}
			keys, next := benchKeys(), 0
			if name == "flood" {
				keys = make([]string, 1<<17)
				for i := range keys {
					keys[i] = fmt.Sprint("once-", i)
				}
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took [2]time.Duration
			const turn = 1000
			b.ResetTimer()
			for done := 0; done < b.N; done += turn {
				for i, g := range gates {
					began := threadTime(b)
					for j := range turn {
						if _, err := g.Do(ctx, gate.Allow, gate.Request{Policy: "p", Key: keys[(next+j)%len(keys)], Cost: 1}); err != nil {
							b.Fatal(err)
						}
					}
					took[i] += threadTime(b) - began
				}
				next += turn
			}
			n := float64((b.N + turn - 1) / turn * turn)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[0])/n, "ns/without")
			b.ReportMetric(float64(took[1])/n, "ns/with")
		})
	}
}

// threadTime returns the processor time that this thread has used.
func threadTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &used); err != nil {
		b.Skip(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
