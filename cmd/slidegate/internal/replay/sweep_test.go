package replay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check the quotas of a sweep, and that each point is the outcome of a run with its quota.

// count returns the numbers from low to high.
func count(low, high int64) (numbers []int64) {
	for n := low; n <= high; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

func listed(numbers []int64) string {
	var texts []string
	for _, n := range numbers {
		texts = append(texts, strconv.FormatInt(n, 10))
	}
	return strings.Join(texts, ",")
}

func TestParseSweep(t *testing.T) {
	for text, want := range map[string][]int64{
		"7":                              {7},
		"10,20,50":                       {10, 20, 50},
		"50,10,20,10":                    {10, 20, 50},
		" 1_000 , 2 ":                    {2, 1000},
		"9007199254740991":               {rule.MaxQuota},
		"10..40:10":                      {10, 20, 30, 40},
		"10..45:10":                      {10, 20, 30, 40},
		" 1_0 .. 3_0 : 1_0 ":             {10, 20, 30},
		"1..2:5":                         {1},
		"1..200:1":                       count(1, 200),
		"1..2":                           {1, 2},
		"1..3":                           {1, 2, 3},
		listed(count(1, 200)):            count(1, 200),
		listed(count(1, 200)) + ",200,1": count(1, 200), // each counts once
	} {
		if got, err := ParseSweep(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%.40q: got %v, %v; want %v", text, got, err, want)
		}
	}
	quota := func(text string) string {
		return fmt.Sprintf("replay: Sweep: invalid quota %q; want 10..1000, 10..1000:10 or 10,20,50", text)
	}
	for text, want := range map[string]string{
		"":                     quota(""),
		"0":                    quota("0"),
		"-5":                   quota("-5"),
		"ten":                  quota("ten"),
		"1.5":                  quota("1.5"),
		"1e3":                  quota("1e3"),
		"_":                    quota("_"),
		"9007199254740992":     quota("9007199254740992"),
		"99999999999999999999": quota("99999999999999999999"),
		"1,,2":                 quota(""),
		"1,2,":                 quota(""),
		"..":                   quota(""),
		"10..":                 quota(""),
		"..10":                 quota(""),
		"10...20":              quota(".20"),
		"1..2..3":              quota("2..3"),
		"10,20..30":            quota("10,20"),
		"1..9:":                quota(""),
		"1..9:0":               quota("0"),
		"1..9:-1":              quota("-1"),
		"9..1":                 "replay: Sweep: 9..1: the smaller quota must come first",
		"5..5":                 "replay: Sweep: 5..5: the smaller quota must come first",
		"1..201:1":             "replay: Sweep: 1..201:1 has 201 quotas; the maximum is 200; use a larger step",
		"1..1_000_000:7":       "replay: Sweep: 1..1_000_000:7 has 142858 quotas; the maximum is 200; use a larger step",
		listed(count(1, 201)):  "replay: Sweep: too many quotas: 201; the maximum is 200",
	} {
		if got, err := ParseSweep(text); err == nil || err.Error() != want || got != nil {
			t.Errorf("%.40q: got %v, %v; want %s", text, got, err, want)
		}
	}
}

func FuzzParseSweep(f *testing.F) {
	for _, text := range []string{"10..1000", "10..1000:10", "10,20,50", "1..9007199254740991", "1..2", " 3 "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quotas, err := ParseSweep(text)
		if err != nil {
			if quotas != nil || !strings.HasPrefix(err.Error(), "replay: Sweep: ") {
				t.Fatalf("%q: got %v, %v, want no quotas and an error about Sweep", text, quotas, err)
			}
			return
		}
		checkRises(t, quotas)
		if again, err := ParseSweep(listed(quotas)); err != nil || !slices.Equal(again, quotas) {
			t.Fatalf("%q: got %v, which is parsed as %v, %v", text, quotas, again, err)
		}
	})
}

func checkRises(t tb, quotas []int64) {
	t.Helper()
	if len(quotas) == 0 || len(quotas) > maxSweep || quotas[0] < 1 || quotas[len(quotas)-1] > rule.MaxQuota {
		t.Fatalf("got %v, want 1 to %d quotas from 1 to %d", quotas, maxSweep, rule.MaxQuota)
	}
	for i, quota := range quotas[1:] {
		if quota <= quotas[i] {
			t.Fatalf("%d after %d in %v", quota, quotas[i], quotas)
		}
	}
}

func TestSweepRangeRises(t *testing.T) {
	check := func(t tb, low, high int64) {
		t.Helper()
		quotas := SweepRange(low, high)
		checkRises(t, quotas)
		if quotas[0] != low || quotas[len(quotas)-1] != high || len(quotas) > rangePoints {
			t.Fatalf("%d..%d: got %v, want at most %d quotas from one end to the other", low, high, quotas, rangePoints)
		}
		factor := math.Pow(float64(high)/float64(low), 1.0/(rangePoints-1))
		for i := 1; i < len(quotas)-1; i++ {
			if digits := strings.TrimRight(strconv.FormatInt(quotas[i], 10), "0"); len(digits) > 2 {
				t.Fatalf("%d..%d: %d is not a round number", low, high, quotas[i])
			}
			// Rounding to two digits changes a number of 10 or more by a twentieth at most, and this applies to both quotas.
			if step := float64(quotas[i]) / float64(quotas[i-1]); low >= 10 && factor > 1.12 && step > 1.11*factor {
				t.Fatalf("%d..%d: from %d to %d", low, high, quotas[i-1], quotas[i])
			}
		}
	}
	for _, c := range [][2]int64{{1, 2}, {1, 3}, {1, 10}, {1, rule.MaxQuota}, {rule.MaxQuota - 1, rule.MaxQuota}, {999, 1000}, {99, 101}, {10, 1000}} {
		check(t, c[0], c[1])
	}
	property(t, 2_000, func(t *rapid.T) {
		low := rapid.Int64Range(1, rule.MaxQuota-1).Draw(t, "low")
		check(t, low, rapid.Int64Range(low+1, rule.MaxQuota).Draw(t, "high"))
	})
	// The factor is the 23rd root of 100, 1.2217: 12.2, 14.9, 18.2, 22.3, 27.2, 33.3.
	if got, want := SweepRange(10, 1000)[:7], []int64{10, 12, 15, 18, 22, 27, 33}; !slices.Equal(got, want) {
		t.Errorf("10..1000: got %v at the beginning, want %v", got, want)
	}
	if got := SweepRange(10, 1000); len(got) != rangePoints {
		t.Errorf("10..1000: got %d quotas, want %d", len(got), rangePoints)
	}
}

// Each point is the outcome of a replay with that quota.
func TestSweepPointsAreSeparateRuns(t *testing.T) {
	property(t, 250, func(t *rapid.T) {
		limits := drawLimits(t)
		if limits[0].Burst > 10 {
			limits[0].Burst = 10 // small quotas cannot refill more in five years
		}
		reqs := drawTraffic(t, limits[0].Window, 60, around)
		quotas := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.Int64Range(1, 20), 1, 6).Draw(t, "quotas"))))
		found := find(t, Options{Limits: limits, Sweep: quotas}, reqs)
		var want []SweepPoint
		for _, quota := range quotas {
			those := slices.Clone(limits)
			those[0].Quota = quota
			if limits[0].Burst == limits[0].Quota {
				those[0].Burst = quota
			}
			o := plainOutcome(decideAll(t, those, reqs), 0)
			want = append(want, SweepPoint{quota, o.Admitted, o.Refused, o.KeysTouched})
		}
		if !slices.Equal(found.Sweep.Points, want) || found.Sweep.Knee != knee(want) {
			t.Fatalf("%v: got %+v, want %+v", limits, found.Sweep, want)
		}
	})
}

func TestSweepBeyondLogQuota(t *testing.T) {
	opts := Options{Limits: []slidegate.Limit{{Quota: 5, Window: time.Minute, Algorithm: slidegate.SlidingLog}}, Sweep: []int64{10, 20_000}}
	found, err := Run(context.Background(), &list{rest: []testRequest{{origin, "a", 1}}}, opts)
	if found != nil || err == nil || !strings.HasPrefix(err.Error(), "replay: Sweep: quota 20000: invalid limit: quota: a sliding-log") {
		t.Errorf("got %v, %v, want no findings and an error about the quota 20000", found, err)
	}
}

func TestKnee(t *testing.T) {
	for name, c := range map[string]struct {
		quotas  []int64
		refused []int64
		want    int
	}{
		"nothing":                  {nil, nil, -1},
		"one":                      {[]int64{1}, []int64{9}, -1},
		"two have nothing between": {[]int64{1, 10}, []int64{9, 0}, -1},
		"flat":                     {[]int64{1, 10, 100}, []int64{9, 9, 9}, -1},
		"straight":                 {[]int64{1, 10, 100, 1000}, []int64{90, 60, 30, 0}, -1},
		"an elbow":                 {[]int64{1, 10, 100, 1000}, []int64{100, 10, 5, 0}, 1}, // 0.9-0.33 before 0.95-0.67
		"a later elbow":            {[]int64{1, 10, 100, 1000, 10_000}, []int64{100, 75, 10, 5, 0}, 2},
		"hardly bent":              {[]int64{1, 10, 100}, []int64{100, 41, 0}, -1}, // 0.59 - 0.5
		"just bent":                {[]int64{1, 10, 100}, []int64{100, 39, 0}, 1},  // 0.61 - 0.5
		"bent the other way":       {[]int64{1, 10, 100}, []int64{100, 95, 0}, -1},
		"by the logarithm":         {[]int64{1, 2, 1024}, []int64{100, 80, 0}, 1},     // 0.2 - 0.1, had it been 0.2 - 0.001 too
		"not by the quota":         {[]int64{1, 512, 1024}, []int64{100, 9, 0}, -1},   // 0.91 - 0.9; by the quota it were 0.41
		"not to the end":           {[]int64{1, 10, 100}, []int64{1000, 420, 400}, 1}, // 0.97 - 0.5
	} {
		var points []SweepPoint
		for i := range c.quotas {
			points = append(points, SweepPoint{Quota: c.quotas[i], Refused: c.refused[i]})
		}
		if got := knee(points); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
