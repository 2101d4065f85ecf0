package port_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/rule"
)

// The periods are consecutive, and now is in the second one.
func TestPeriodsAround(t *testing.T) {
	l, err := rule.Limit{Quota: 1, Calendar: rule.Day, Zone: "America/New_York"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) // clocks are set forward on the 8th
	for hour := range 24 * 30 {
		now := rule.Micros(start.Add(time.Duration(hour) * time.Hour).UnixMicro())
		p := port.PeriodsAround(&l, now)
		if p[1] > now || now >= p[2] {
			t.Errorf("%v is not in the second period of %v", now.Time(), p)
		}
		for i := range 3 {
			if begin, end := l.Bounds(p[i]); begin != p[i] || end != p[i+1] {
				t.Errorf("%v: %d is not a period", p, i)
			}
		}
	}
}
