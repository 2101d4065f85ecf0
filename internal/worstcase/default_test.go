package worstcase

import (
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// eachDefault calls f with limits that name no algorithm: as a log and in parts, of 50, 56 and 60 parts.
func eachDefault(f func(l rule.Limit)) {
	const second = rule.Micros(1_000_000)
	for _, window := range []rule.Micros{second, 7 * second, 60 * second, 3600 * second} {
		for _, quota := range []int64{1, 2, 5, 60, 100, 101, 600, 10_000} {
			l, err := rule.Limit{Quota: quota, Window: window}.Normalize()
			if err != nil {
				panic(err)
			}
			f(l)
		}
	}
}

// TestDefaultIsAHardCap checks the promise for limits that name no algorithm: no window ever holds more than the quota.
func TestDefaultIsAHardCap(t *testing.T) {
	eachDefault(func(l rule.Limit) {
		for _, l.CountRefused = range []bool{false, true} {
			if f := Search(l, MostIn(l.Window), effort(3, 60)); f.Most != l.Quota {
				t.Errorf("%d per %v, count_refused %t: %d in a window: %s", l.Quota, l.Window.Duration(), l.CountRefused, f.Most, f.Schedule)
			}
		}
		if f := Search(l, MostIn(l.Window+2), effort(3, 60)); f.Most <= l.Quota { // a fault that a cap in parts has just no room for
			t.Errorf("%d per %v: the search missed a window that is 2us too short", l.Quota, l.Window.Duration())
		}
	})
}

// TestObedientByDefault checks what an obedient client gets of the quota: all of it from a log, and from parts all but one of them.
func TestObedientByDefault(t *testing.T) {
	eachDefault(func(l rule.Limit) {
		least := 1.0
		if l.StartsInParts(0) {
			least = 0.98
		}
		if share := Obedient(l); share < least {
			t.Errorf("%d per %v: an obedient client gets %.3f of it, want at least %.2f", l.Quota, l.Window.Duration(), share, least)
		}
	})
}
