package journal_test

import (
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
)

// BenchmarkNote measures records with a checkpoint whenever one is due. Run it with -cpu 1,2.
func BenchmarkNote(b *testing.B) {
	j, _, _ := open(b, b.TempDir(), journal.Options{})
	done := make(chan struct{})
	var checkpoints sync.WaitGroup
	checkpoints.Go(func() {
		for {
			select {
			case <-j.Due():
				if j.Begin() != nil || j.Commit() != nil {
					b.Error(j.Err(), j.Stats())
				}
			case <-done:
				return
			}
		}
	})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := uint64(0); pb.Next(); i++ {
			if _, durable := j.Note(1, i, i); !durable {
				b.Error("a note is not durable: ", j.Err(), j.Stats())
				return
			}
		}
	})
	b.StopTimer()
	close(done)
	checkpoints.Wait()
}

// BenchmarkSynced measures records of 40 bytes that are waited for.
func BenchmarkSynced(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(map[int]string{1: "1", 8: "8", 64: "64"}[callers], func(b *testing.B) {
			j, _, _ := open(b, b.TempDir(), journal.Options{Synced: true})
			body := make([]byte, 32)
			var all sync.WaitGroup
			b.ReportAllocs()
			for c := range callers {
				all.Go(func() {
					for i := c; i < b.N; i += callers {
						at, _ := j.Append(1, body)
						if !j.Wait(at) {
							b.Error("a record is not durable")
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
