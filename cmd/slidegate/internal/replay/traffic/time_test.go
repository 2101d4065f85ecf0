package traffic

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/rule"
)

// aTime draws a time, often near another one, so that the cached day is sometimes right and sometimes wrong.
func aTime(t *rapid.T) time.Time {
	zone := rapid.IntRange(-14*60, 14*60).Draw(t, "zone")
	seconds := rapid.OneOf(rapid.Int64Range(0, 9_000_000_000), rapid.Int64Range(1_794_600_000, 1_794_900_000)).Draw(t, "seconds")
	return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).In(time.FixedZone("", zone*60))
}

func TestTimesAreThoseOfPackageTime(t *testing.T) {
	var c clock
	layouts := map[string]func([]byte) (rule.Micros, bool){
		"02/Jan/2006:15:04:05 -0700":          c.clf,
		"2006-01-02T15:04:05Z07:00":           c.rfc3339,
		"2006-01-02T15:04:05.999999999Z07:00": c.rfc3339,
		"2006-01-02 15:04:05,000-0700":        c.rfc3339,
		"2006-01-02t15:04:05.000000-07:00":    c.rfc3339,
	}
	rapid.Check(t, func(t *rapid.T) {
		for layout, parse := range layouts {
			text := aTime(t).Format(layout)
			want, err := time.Parse(layout, text)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := parse([]byte(text)); !ok || got != rule.Micros(want.UnixMicro()) {
				t.Fatalf("%s: got %d, %v, want %d", text, got, ok, want.UnixMicro())
			}
			if got, ok := c.parse([]byte(text)); !ok || got != rule.Micros(want.UnixMicro()) {
				t.Fatalf("%s: got %d, %v from when, want %d", text, got, ok, want.UnixMicro())
			}
		}
	})
}

// FuzzTimes checks that times that package time rejects are rejected, and that others are equal.
func FuzzTimes(f *testing.F) {
	for _, text := range []string{
		"15/Nov/2026:06:48:34 +0000", "29/Feb/2027:06:48:34 +0000", "15/nov/2026:06:48:34 +0000", "15/Nov/2026:24:00:00 -0800",
		"2026-11-15T06:48:34Z", "2026-02-30T06:48:34Z", "2026-11-15T06:48:60Z", "2026-11-15T06:48:34.1234567+01:00", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c clock
		for range 2 { // the second time the day is cached
			got, ok := c.clf([]byte(text))
			want, err := time.Parse("02/Jan/2006:15:04:05 -0700", text)
			if ok && (err != nil || got != rule.Micros(want.UnixMicro())) {
				t.Errorf("CLF %q: got %d, want %d, %v", text, got, want.UnixMicro(), err)
			}
			got, ok = c.rfc3339([]byte(text))
			want, err = time.Parse(time.RFC3339Nano, text)
			if err == nil && (!ok || got != rule.Micros(want.UnixMicro())) {
				t.Errorf("RFC 3339 %q: got %d, %v, want %d", text, got, ok, want.UnixMicro())
			}
			c.parse([]byte(text))
		}
	})
}

func TestInvalidTimes(t *testing.T) {
	var c clock
	c.clf([]byte("15/Nov/2026:06:48:34 +0000")) // the day is cached, and must not make what follows valid
	c.rfc3339([]byte("2026-11-15T06:48:34Z"))
	for _, text := range []string{
		"15/Nov/2026:06:48:34", "15/Nov/2026:06:48:34 0000 ", "15/Nov/2026:06:48:60 +0000", "15/Nov/2026:06:60:34 +0000",
		"15/Nov/2026:24:48:34 +0000", "31/Apr/2026:06:48:34 +0000", "15/Nov/2026 06:48:34 +0000", "15/Nov/2026:06-48-34 +0000",
		"15/NOV/2026:06:48:34 +0000", "1a/Nov/2026:06:48:34 +0000", "00/Nov/2026:06:48:34 +0000", "15-Nov-2026:06:48:34 +0000",
		"15/Nov/20x6:06:48:34 +0000", "15/Nov/2026:06:48:34 *0000", "15/Nov/2026:06:48:34 +00:0",
		"2026-11-15T06:48:34", "2026-11-15T06:48:34.", "2026-11-15T06:48:34.Z", "2026-11-15T06:48:34.5", "2026-11-15_06:48:34Z",
		"2026-13-15T06:48:34Z", "2026-11-31T06:48:34Z", "2026-11-00T06:48:34Z", "2026/11/15T06:48:34Z", "2026-11-15T06:48:34Zz",
		"2026-11-15T06:48:34+01", "2026-11-15T06:48:34+1:000", "", "-", "now", "1e", "1.", ".5", "1e+", "--1", "1 2",
	} {
		if at, ok := c.parse([]byte(text)); ok {
			t.Errorf("%q: got %d, want an error", text, at)
		}
	}
}

func TestTimesInNumbers(t *testing.T) {
	const want = 1_794_725_314_123_456
	for text, want := range map[string]int64{
		"1794725314":                want / 1_000_000 * 1_000_000,
		"1794725314.123456":         want,
		"1794725314.1234567":        want,
		"1794725314123":             want / 1000 * 1000,
		"1794725314123.456":         want,
		"1794725314123456":          want,
		"1794725314123456789":       want,
		"1.794725314123456789e9":    want,
		"1.794725314123456789E+18":  want,
		"17947253141234567890e-10":  want,
		"1":                         1_000_000,
		"0.000001":                  1,
		"0":                         0,
		"-1794725314":               -want / 1_000_000 * 1_000_000,
		"99999999999":               99_999_999_999_000_000, // the last number in seconds, later than any valid time
		"100000000000":              100_000_000_000_000,    // the first in milliseconds, in 1973
		"100000000000000":           100_000_000_000_000,    // the first in microseconds, the same time
		"100000000000000000":        100_000_000_000_000,    // and the first in nanoseconds
		"1794725314000000000.00000": want / 1_000_000 * 1_000_000,
	} {
		var c clock
		if got, ok := c.parse([]byte(text)); !ok || got != rule.Micros(want) {
			t.Errorf("%s: got %d, %v, want %d", text, got, ok, want)
		}
	}
}

// decimal is exact: it agrees with big rationals.
func TestDecimalIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?[0-9]{1,22}(\.[0-9]{1,22})?([eE][-+]?[0-9]{1,2})?`).Draw(t, "number")
		scale := rapid.IntRange(-9, 9).Draw(t, "scale")
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatal(text)
		}
		ten := new(big.Rat).SetInt64(10)
		for range max(scale, -scale) {
			if scale > 0 {
				exact.Mul(exact, ten)
			} else {
				exact.Quo(exact, ten)
			}
		}
		want := new(big.Int).Quo(exact.Num(), exact.Denom())
		n, whole, ok := decimal([]byte(text), scale)
		if !ok {
			if want.CmpAbs(big.NewInt(1<<62)) < 0 {
				t.Fatalf("%s * 10^%d: got that it does not fit, want %v", text, scale, want)
			}
			return
		}
		if whole && (!exact.IsInt() || want.Cmp(big.NewInt(n)) != 0) {
			t.Fatalf("%s * 10^%d: got %d and whole, want %v", text, scale, n, exact)
		}
		// If there are more digits than fit, the last are dropped, which does not matter for times, and is not a whole
		// number for costs.
		if digits := len(text); digits <= 18 && (want.Cmp(big.NewInt(n)) != 0 || whole != exact.IsInt()) {
			t.Fatalf("%s * 10^%d: %d, whole %v, want %v", text, scale, n, whole, exact)
		}
	})
}
