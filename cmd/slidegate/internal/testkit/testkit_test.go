package testkit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !eventually(time.Minute, func() bool { return time.Since(start) >= time.Second }) {
			t.Error("got false for a condition that is true after a second")
		}
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("waited for %v, want about a second", waited)
		}
		if eventually(time.Minute, func() bool { return false }) {
			t.Error("got true for a condition that is never true")
		}
		if waited := time.Since(start); waited < time.Minute || waited > 2*time.Minute {
			t.Errorf("gave up after %v, want about a minute", waited)
		}
	})
}
