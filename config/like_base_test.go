package config

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// An in-flight limit whose time to live is the window of a rate limit is not what an override's rate limit counts like.
func TestLikeBaseBesideSlots(t *testing.T) {
	base := []slidegate.Limit{slidegate.Slots(5, time.Minute), slidegate.PerMinute(60)}
	if got := likeBase(slidegate.PerMinute(600), base).Algorithm; got != slidegate.SlidingLog {
		t.Errorf("600/1m is a %v, want the sliding-log that 60/1m is", got)
	}
}
