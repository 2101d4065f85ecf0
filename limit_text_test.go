package slidegate_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// Texts in their shortest form print unchanged, others in that form.
func TestLimitString(t *testing.T) {
	for text, want := range map[string]string{
		"100/1m":                         "100/1m",
		"100/1m0s":                       "100/1m",
		"10/second":                      "10/1s",
		"5000 per 24h":                   "5000/24h",
		"1_000 / 1h":                     "1000/1h",
		"1/7d":                           "1/168h",
		"1/1h0m10s":                      "1/1h0m10s",
		"1/10m":                          "1/10m",
		"1/100h":                         "1/100h",
		"1/1h10m":                        "1/1h10m",
		"1/20s":                          "1/20s",
		"1/5ms":                          "1/5ms",
		"1/1.5ms":                        "1/1.5ms",
		"1/1s sliding-window overlap=up": "1/1s sliding-window",
		"1/1s anchor=clock segments=1":   "1/1s segments=1",
		"5/1m overlap=up":                "5/1m sliding-window",
		"5/1m anchor=clock":              "5/1m sliding-window",
		"5/1m anchor=clock token-bucket": "5/1m token-bucket",
		"5/1m sliding-log overlap=up":    "5/1m sliding-log",
		"500/1m overlap=up":              "500/1m sliding-window",
		"500/1m overlap=down":            "500/1m overlap=down",
		"50 in-flight ttl=30s":           "50 in-flight ttl=30s",
		"5_0 ttl=90s in-flight name=x":   `50 in-flight ttl=1m30s name="x"`,
		"1000/month":                     "1000/month",
		"1000/month zone=UTC":            "1000/month zone=UTC",
		"1000 per year fixed-window":     "1000/year fixed-window",
		"7/1d zone=Europe/Berlin":        "7/day zone=Europe/Berlin",
		"7/week zone=Asia/Tokyo":         "7/week zone=Asia/Tokyo",
		"7/week":                         "7/168h",
		"20/1s burst=40 token-bucket":    "20/1s token-bucket burst=40",
		"1/1s name=login count-denied":   `1/1s count-denied name="login"`,
		`1/1s name="\x80 \"é\""`:         `1/1s name="\x80 \"é\""`,
		"6/1m name=x anchor=first overlap=down segments=6": `6/1m segments=6 overlap=down anchor=first name="x"`,
	} {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := limit.String(); got != want {
			t.Errorf("%q prints as %q, want %q", text, got, want)
		}
	}
}

// The text of a calendar day or week without a zone names UTC, because it would otherwise mean 24 or 168 hours.
func TestCalendarWithoutZone(t *testing.T) {
	for period, want := range map[slidegate.Period]string{
		slidegate.CalendarDay: "5/day zone=UTC", slidegate.CalendarWeek: "5/week zone=UTC", slidegate.CalendarMonth: "5/month", slidegate.CalendarYear: "5/year",
	} {
		limit := slidegate.Limit{Quota: 5, Calendar: period}
		read, err := slidegate.ParseLimit(limit.String())
		if err != nil || limit.String() != want || read.Calendar != period {
			t.Errorf("%v prints as %q, which is %+v, %v; want %q", period, limit, read, err, want)
		}
	}
}

// The text of every limit means that limit: in configuration files, in JSON, and in reservations that pass through another
// process.
func TestEveryLimitSurvivesItsText(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 5000 {
		limit := randomLimit(random)
		got, err := slidegate.ParseLimit(limit.String())
		if err != nil || got != limit {
			t.Fatalf("seed %d, limit %d: %#v prints as %q, which is %#v, %v", seed, i, limit, limit, got, err)
		}
		encoded, err := json.Marshal(map[string]slidegate.Limit{"limit": limit})
		if err != nil {
			t.Fatalf("seed %d, limit %d: %q: %v", seed, i, limit, err)
		}
		var decoded struct{ Limit slidegate.Limit }
		if err := json.Unmarshal(encoded, &decoded); err != nil || decoded.Limit != limit {
			t.Fatalf("seed %d, limit %d: %#v in JSON is %s, which is %#v, %v", seed, i, limit, encoded, decoded.Limit, err)
		}
	}
}

// randomLimit returns a random valid limit, with all options about equally often.
func randomLimit(random *rand.Rand) slidegate.Limit {
	units := []time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, day}
	for {
		limit := slidegate.Limit{
			Quota:       1 + random.Int64()>>(10+random.UintN(53)),
			Window:      time.Duration(1+random.IntN(1000)) * units[random.IntN(len(units))],
			Algorithm:   slidegate.Algorithm(random.UintN(6)),
			Overlap:     slidegate.Overlap(random.UintN(3)),
			Anchor:      slidegate.Anchor(random.UintN(2)),
			CountDenied: random.UintN(2) == 0,
		}
		if random.UintN(2) == 0 {
			limit.Segments = random.IntN(65)
		}
		if random.UintN(4) == 0 {
			limit.Window, limit.Calendar = 0, slidegate.Period(1+random.UintN(4))
			limit.Zone = []string{"UTC", "Europe/Berlin", "Asia/Kathmandu"}[random.UintN(3)]
			if limit.Calendar >= slidegate.CalendarMonth && random.UintN(2) == 0 {
				limit.Zone = ""
			}
		}
		if limit.Algorithm == slidegate.TokenBucket && random.UintN(2) == 0 {
			limit.Burst = 1 + random.Int64()>>(10+random.UintN(53))
		}
		name := make([]byte, random.IntN(12))
		for i := range name {
			name[i] = byte(random.UintN(256))
		}
		limit.Name = string(name)
		if limit.Check() == nil {
			return limit
		}
	}
}

// An invalid text changes nothing, so that a configuration reloaded with a mistake keeps its limits.
func TestUnmarshalTextKeepsTheLimitOnError(t *testing.T) {
	limit := slidegate.PerMinute(100)
	if err := limit.UnmarshalText([]byte("100/1m segments=7 overlap=sideways")); err == nil {
		t.Error("got no error for an invalid text")
	}
	if limit != slidegate.PerMinute(100) {
		t.Errorf("the limit changed to %v", limit)
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{
		"100/1m", "10/s", "5000 per 24h", "1 / 5ms", "1_0/7d", "1/1.5h", "20/1s token-bucket burst=40", "1/-7d",
		"6/1m segments=6 overlap=whole anchor=first count-denied name=login", `1/s name="\xff \"x\""`, `1/s name="`, "/", "=",
		"50 in-flight ttl=30s", "1000/month zone=Europe/Berlin", "7/day zone=UTC", "1/2years", "5/1m segments=0 overlap=up",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			return
		}
		printed := limit.String()
		again, err := slidegate.ParseLimit(printed)
		if err != nil || again != limit {
			t.Fatalf("%q is %#v, which prints as %q, which is %#v, %v", text, limit, printed, again, err)
		}
		if reprinted := again.String(); reprinted != printed {
			t.Fatalf("%q prints as %q and then as %q", text, printed, reprinted)
		}
	})
}
