package replay

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// randomTraffic is traffic without a log: uniformly random keys, a thousand requests per second.
type randomTraffic struct {
	random *rand.Rand
	keys   [][]byte
	left   int
	now    int64
}

func newDrawn(keys, requests int) *randomTraffic {
	d := &randomTraffic{random: rand.New(rand.NewPCG(1, 2)), left: requests, now: 1_767_600_000_000_000}
	for i := range keys {
		d.keys = append(d.keys, fmt.Appendf(nil, "user-%06d", i))
	}
	return d
}

func (d *randomTraffic) Next(line *traffic.Line) error {
	if d.left == 0 {
		return io.EOF
	}
	d.left--
	d.now += 1000
	line.At, line.Cost, line.Key = rule.Micros(d.now), 1, d.keys[d.random.IntN(len(d.keys))]
	return nil
}

// BenchmarkRun measures a replay without reading a log: 100,000 keys, one request per iteration.
func BenchmarkRun(b *testing.B) {
	for _, limit := range []string{"5/1m", "600/1m", "5/1m sliding-window", "5/1m sliding-log", "50/day zone=Europe/Berlin", "5/1m token-bucket", "60/1h segments=10"} {
		b.Run(limit, func(b *testing.B) {
			b.ReportAllocs()
			opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(limit)}, Top: 10, Sort: 10 * time.Second}
			if _, err := Run(context.Background(), newDrawn(100_000, b.N), opts); err != nil {
				b.Fatal(err)
			}
		})
	}
}
