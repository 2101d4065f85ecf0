package worstcase

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// slowMaximum tries every interval.
func slowMaximum(admissions []Admission, length rule.Micros) int64 {
	var most int64
	for start := rule.Micros(-1); start < 40; start++ {
		var held int64
		for _, a := range admissions {
			if a.At > start && a.At <= start+length {
				held += a.Units
			}
		}
		most = max(most, held)
	}
	return most
}

// TestMeasuresMatchTryingEveryInterval compares the two sweeps with trying every interval. If they counted too little, all other
// tests here would be worthless.
func TestMeasuresMatchTryingEveryInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(*seedFlag, 2))
	for range 500 {
		var admissions []Admission
		for at := r.Int64N(3); at < 30; at += r.Int64N(6) { // several at the same time also occur
			admissions = append(admissions, Admission{At: rule.Micros(at), Units: 1 + r.Int64N(5)})
			if len(admissions) == 12 {
				break
			}
		}
		length, quota := r.Int64N(20), 1+r.Int64N(12)
		if got, want := MostWithin(admissions, rule.Micros(length)), slowMaximum(admissions, rule.Micros(length)); got != want {
			t.Fatalf("most in %d of %v: got %d, want %d", length, admissions, got, want)
		}
		var shortest rule.Micros
		for n := rule.Micros(40); n > 0 && slowMaximum(admissions, n) > quota; n-- {
			shortest = n
		}
		if got := ShortestOver(admissions, quota); got != shortest {
			t.Fatalf("shortest over %d of %v: got %d, want %d", quota, admissions, got, shortest)
		}
	}
}

// The previous/current counter: everything at the end of one minute, and again at the end of the next.
func Example_previousAndCurrent() {
	limit, _ := rule.Limit{Algorithm: rule.SlidingWindow, Quota: 100, Window: 60_000_000}.Normalize()
	minute := rule.Micros(28_000_000 * 60_000_000) // any full minute since the epoch
	var state rule.State
	for _, request := range []struct {
		at   rule.Micros
		cost int64
	}{
		{59_999_999, 100},  // the last microsecond of the minute
		{60_599_999, 1},    // 1 of the 100 must fade first: that takes 0.6 seconds
		{60_600_000, 0},    // now it would be admitted; a cost of 0 only peeks
		{119_999_998, 100}, // one microsecond before the first hundred has left the window
		{119_999_998, 99},
	} {
		answer, _ := limit.TakeOne(&state, minute+request.at, request.cost)
		fmt.Printf("%3d.%06ds  cost %3d  allowed %-5t  remaining %2d\n",
			request.at/1e6, request.at%1e6, request.cost, answer.Allowed, answer.Remaining)
	}
	// Output:
	//  59.999999s  cost 100  allowed true   remaining  0
	//  60.599999s  cost   1  allowed false  remaining  0
	//  60.600000s  cost   0  allowed true   remaining  1
	// 119.999998s  cost 100  allowed false  remaining 99
	// 119.999998s  cost  99  allowed true   remaining  0
}
