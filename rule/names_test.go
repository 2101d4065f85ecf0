package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Names survive being written and read, and different shapes have different names.

func TestNamesRoundTrip(t *testing.T) {
	type choices struct {
		Algorithm Algorithm
		Overlap   Overlap
		Anchor    Anchor
	}
	names := map[string]bool{}
	for algorithm := DefaultAlgorithm; algorithm <= InFlight; algorithm++ {
		for overlap := OverlapUp; overlap <= OverlapWhole; overlap++ {
			for anchor := AnchorClock; anchor <= AnchorFirst; anchor++ {
				written := choices{algorithm, overlap, anchor}
				text, err := json.Marshal(written)
				var read choices
				if err != nil || json.Unmarshal(text, &read) != nil || read != written {
					t.Errorf("%+v was written as %s and read as %+v, %v", written, text, read, err)
				}
				names[string(text)] = true
			}
		}
	}
	if len(names) != 6*3*2 {
		t.Errorf("got %d different texts, want %d", len(names), 6*3*2)
	}
	text, _ := json.Marshal(choices{TokenBucket, OverlapWhole, AnchorFirst})
	if want := `{"Algorithm":"token-bucket","Overlap":"whole","Anchor":"first"}`; string(text) != want {
		t.Errorf("written as %s, want %s", text, want)
	}
}

func TestUnknownNames(t *testing.T) {
	algorithm, overlap, anchor, period := TokenBucket, OverlapWhole, AnchorFirst, Month
	for field, read := range map[string]func([]byte) error{
		"algorithm: must be one of default, sliding-log, fixed-window, token-bucket, sliding-window, in-flight": algorithm.UnmarshalText,
		"overlap: must be one of up, down, whole":               overlap.UnmarshalText,
		"anchor: must be one of clock, first":                   anchor.UnmarshalText,
		"calendar: must be one of none, day, week, month, year": period.UnmarshalText,
	} {
		for _, name := range []string{"", "UP", "leaky-bucket", "unknown(7)"} {
			err := read([]byte(name))
			if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), field) {
				t.Errorf("%q: got %v, want an error with %q", name, field, err)
			}
		}
	}
	if algorithm != TokenBucket || overlap != OverlapWhole || anchor != AnchorFirst || period != Month {
		t.Errorf("failed reads changed the values: %v, %v, %v, %v", algorithm, overlap, anchor, period)
	}
	if a, o, n := Algorithm(9).String(), Overlap(9).String(), Anchor(9).String(); a != "unknown(9)" || o != a || n != a {
		t.Errorf("unknown values have the names %s, %s, %s", a, o, n)
	}
}

func TestShapeNames(t *testing.T) {
	shapes := map[string]Shape{}
	for _, l := range everyChoice() {
		for _, window := range []Micros{13440 * second, 134400 * second} { // both are divisible by all numbers of segments used here
			if l.Quota = 5; l.Calendar == NoPeriod {
				l.Window = window
			}
			shape := normalShape(t, l)
			if other, ok := shapes[shape.String()]; ok && other != shape {
				t.Errorf("%+v and %+v both have the name %s", shape, other, shape)
			}
			shapes[shape.String()] = shape
			// Fields that are not part of the shape do not change it.
			l.Quota, l.CountDenied = 7, !l.CountDenied && l.Algorithm != InFlight
			if l.Algorithm == TokenBucket {
				l.Burst = 9
			}
			if again := normalShape(t, l); again != shape {
				t.Errorf("the shape %+v changed with the quota, from %+v", again, shape)
			}
			of := shape.Limit()
			if of, err := of.Normalize(); err != nil || of.Shape() != shape {
				t.Errorf("the limit of shape %+v is %+v, %v", shape, of, err)
			}
		}
	}
	// A log, a bucket, slots, a fixed window with two anchors, and a sliding window with two anchors and five numbers of
	// segments, each with two windows; and the calendars.
	if want := (1+1+1+2+2*5)*2 + 3; len(shapes) != want {
		t.Errorf("got %d names, want %d", len(shapes), want)
	}
}

func normalShape(t *testing.T, l Limit) Shape {
	t.Helper()
	l = normal(t, l)
	return l.Shape()
}

// Operations and flags print as words, also inside other values and in JSON.
func TestOpsAndFlagsPrintAsWords(t *testing.T) {
	for op, want := range map[Op]string{
		Take: "take", TakeUpTo: "take-up-to", Peek: "peek", Charge: "charge", GiveBack: "give-back", Reset: "reset",
		Settle: "settle", Renew: "renew", 77: "unknown(77)",
	} {
		text, err := json.Marshal(op)
		if got := fmt.Sprint(op); got != want || err != nil || string(text) != `"`+want+`"` {
			t.Errorf("%d is %q and %s, %v, want %q", uint8(op), got, text, err, want)
		}
		var read Op
		if err := json.Unmarshal(text, &read); op != 77 && (err != nil || read != op) || op == 77 && err == nil {
			t.Errorf("%s is read as %v, %v", text, read, err)
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

// Codes are part of saved and sent data, so they never change.
func TestCodes(t *testing.T) {
	for code, want := range []Algorithm{SlidingWindow, SlidingLog, FixedWindow, TokenBucket, InFlight} {
		if got, ok := AlgorithmOf(int64(code)); !ok || got != want || want.Code() != code {
			t.Errorf("%v has the code %d, but code %d is %v, %v", want, want.Code(), code, got, ok)
		}
	}
	for _, code := range []int64{-1, 5, 1 << 40} {
		if a, ok := AlgorithmOf(code); ok {
			t.Errorf("%d is %v", code, a)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("DefaultAlgorithm has a code")
		}
	}()
	DefaultAlgorithm.Code()
}
