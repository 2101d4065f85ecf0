package redisstore

import (
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The periods that are sent are consecutive, now is in the second one, and remembered periods are not used after their
// end.
func TestPeriods(t *testing.T) {
	l, err := rule.Limit{Quota: 1, Calendar: rule.Day, Zone: "America/New_York"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	limit := store.Bind("", "daily", "daily", l)
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	var c calendar
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for hour := range 24 * 30 {
				now := rule.Micros(start.Add(time.Duration(hour) * time.Hour).UnixMicro())
				p := c.starts(limit, now)
				if p[1] > now || now >= p[2] {
					t.Errorf("%v is not in the second period of %v", time.UnixMicro(int64(now)), p)
				}
				for i := range 3 {
					if begin, end := l.Bounds(p[i]); begin != p[i] || end != p[i+1] {
						t.Errorf("%v: %d is not a period", p, i)
					}
				}
			}
		})
	}
	running.Wait()
}

// The offset of a server that is far ahead is used for all limits.
func TestPeriodsOfAServerThatIsAhead(t *testing.T) {
	l, err := rule.Limit{Quota: 1, Calendar: rule.Month}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	var c calendar
	now := rule.Micros(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	c.ahead.Store((365 * 24 * time.Hour).Microseconds())
	p := c.starts(store.Bind("", "", "", l), now)
	if want := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC); !time.UnixMicro(int64(p[1])).Equal(want) {
		t.Errorf("got a period that starts at %v, want %v", time.UnixMicro(int64(p[1])).UTC(), want)
	}
}
