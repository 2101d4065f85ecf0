package main

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/internal/testkit/generate"
)

// BenchmarkReplay runs the whole command on a log of 100,000 keys. The metric to look at is requests per second; with -cpu 1 it is
// that of one core.
func BenchmarkReplay(b *testing.B) {
	const requests = 2_000_000
	for kind, write := range map[string]func(io.Writer, generate.Options) error{"lines": generate.Lines, "combined": generate.Combined} {
		var log bytes.Buffer
		testkit.NoError(b, write(&log, generate.Options{Shape: "steady", Keys: 100_000, Requests: requests}))
		text := log.Bytes()
		for _, limit := range []string{"60/1m", "60/1m sliding-log"} {
			b.Run(fmt.Sprintf("%s/%s", kind, limit), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if r := callWith(b.Context(), bytes.NewReader(text), "replay", "--limit", limit, "-"); r.status != exitOK {
						b.Fatal(r.err)
					}
				}
				b.ReportMetric(float64(requests)*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			})
		}
	}
}
