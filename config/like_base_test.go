package config

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// An override's rate limit does not count like an in-flight limit whose time to live equals its window.
func TestLikeBaseBesideSlots(t *testing.T) {
	base := []slidegate.Limit{slidegate.Slots(5, time.Minute), slidegate.PerMinute(60)}
	if got := likeBase(slidegate.PerMinute(600), base).Algorithm; got != slidegate.SlidingLog {
		t.Errorf("600/1m: got %v, want sliding-log as for 60/1m", got)
	}
}
