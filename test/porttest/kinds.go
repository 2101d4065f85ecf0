package porttest

import (
	"time"

	"github.com/slidegate/slidegate"
)

// Kinds returns limits of every format of state, with windows that outlast a test. An eleventh of an hour is not a
// whole number of microseconds.
func Kinds() []slidegate.Limit {
	return []slidegate.Limit{
		{Name: "window", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingWindow},
		{Name: "parts", Quota: 10, Window: time.Hour, Segments: 6, Anchor: slidegate.AnchorFirst, Overlap: slidegate.OverlapWhole},
		{Name: "fixed", Quota: 10, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
		{Name: "log", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingLog},
		{Name: "long-log", Quota: 1_000, Window: time.Hour, Algorithm: slidegate.SlidingLog},
		{Name: "bucket", Quota: 11, Window: time.Hour, Burst: 7, Algorithm: slidegate.TokenBucket},
		{Name: "default-log", Quota: 10, Window: time.Hour},
		{Name: "default-parts", Quota: 200, Window: time.Hour},
	}
}
