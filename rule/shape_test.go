package rule_test

import (
	"testing"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/rule"
)

// Different shapes have different names.
func TestShapeNames(t *testing.T) {
	shapes := map[string]rule.Limit{}
	for _, l := range rule.EveryChoice() {
		for _, window := range []rule.Micros{13440e6, 134400e6} { // both are divisible by all numbers of segments used here
			if l.Quota = 5; l.Calendar == 0 {
				l.Window = window
			}
			own := normalShape(t, l)
			name := shape.Name(&own)
			if other, ok := shapes[name]; ok && other != own {
				t.Errorf("%+v and %+v both have the name %s", own, other, name)
			}
			shapes[name] = own
			// Fields that are not part of the shape do not change it.
			l.Quota, l.CountRefused = 7, !l.CountRefused && l.Algorithm != rule.InFlight
			if l.Algorithm == rule.TokenBucket {
				l.Burst = 9
			}
			if again := normalShape(t, l); again != own {
				t.Errorf("the shape %+v changed with the quota, from %+v", again, own)
			}
			if of, err := own.Normalize(); err != nil || shape.Of(&of) != own {
				t.Errorf("the limit of shape %+v is %+v, %v", own, of, err)
			}
		}
	}
	// The default, a log, a bucket, slots, a fixed window with two anchors, and a sliding window with two anchors and five numbers of
	// segments, each with two windows; and the calendars.
	if want := (1+1+1+1+2+2*5)*2 + 3; len(shapes) != want {
		t.Errorf("got %d names, want %d", len(shapes), want)
	}
}

func normalShape(t *testing.T, l rule.Limit) rule.Limit {
	t.Helper()
	l, err := l.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return shape.Of(&l)
}
