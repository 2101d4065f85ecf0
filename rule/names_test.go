package rule

import (
	"fmt"
	"testing"
)

// Choices print as the words that limits and configuration files use.
func TestNames(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		DefaultAlgorithm: "default", SlidingLog: "sliding-log", FixedWindow: "fixed-window", TokenBucket: "token-bucket",
		SlidingWindow: "sliding-window", InFlight: "in-flight", Algorithm(9): "unknown(9)",
		OverlapUp: "up", OverlapDown: "down", OverlapWhole: "whole", Overlap(9): "unknown(9)",
		AnchorClock: "clock", AnchorFirst: "first", Anchor(9): "unknown(9)",
		Period(0): "none", Day: "day", Week: "week", Month: "month", Year: "year", Period(9): "unknown(9)",
	} {
		if got := value.String(); got != want {
			t.Errorf("%T %d: got %s, want %s", value, value, got, want)
		}
	}
}

// Operations and flags print as words, also inside other values.
func TestOpsAndFlagsPrintAsWords(t *testing.T) {
	for op, want := range map[Op]string{
		Take: "take", TakeUpTo: "take-up-to", Peek: "peek", Charge: "charge", GiveBack: "give-back", Reset: "reset",
		Settle: "settle", Renew: "renew", 77: "unknown(77)",
	} {
		if got := fmt.Sprint(op); got != want {
			t.Errorf("%d is %q, want %q", uint8(op), got, want)
		}
	}
	printed := struct {
		Op    Op
		Flags Flags
	}{Take, FallbackOpen | Cached}
	if got, want := fmt.Sprintf("%+v", printed), "{Op:take Flags:cached|fallback-open}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The order is part of saved and sent data, so it never changes.
func TestOrderOfAlgorithms(t *testing.T) {
	for i, want := range []Algorithm{SlidingWindow, SlidingLog, FixedWindow, TokenBucket, InFlight} {
		if Algorithms[i] != want {
			t.Errorf("number %d: got %v, want %v", i, Algorithms[i], want)
		}
	}
	if len(Algorithms) != len(algorithms)-1 {
		t.Errorf("got %d algorithms that a limit can name, and %d names", len(Algorithms), len(algorithms)-1)
	}
}
