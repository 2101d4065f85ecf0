package slidegate_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
)

const day = 24 * time.Hour

func TestParseLimitAccepts(t *testing.T) {
	const log, fixed, bucket = slidegate.SlidingLog, slidegate.FixedWindow, slidegate.TokenBucket
	for text, want := range map[string]slidegate.Limit{
		// Rates.
		"100/1m":              {Quota: 100, Window: time.Minute},
		"100/1m0s":            {Quota: 100, Window: time.Minute},
		"10/s":                {Quota: 10, Window: time.Second},
		"10/second":           {Quota: 10, Window: time.Second},
		"10 per second":       {Quota: 10, Window: time.Second},
		"5000 per 24h":        {Quota: 5000, Window: day},
		"5000 / 24h":          {Quota: 5000, Window: day},
		"  5000  per\t24h \n": {Quota: 5000, Window: day},
		"1_000/1h":            {Quota: 1000, Window: time.Hour},
		"3/1.5h":              {Quota: 3, Window: 90 * time.Minute},
		"3/1h30m":             {Quota: 3, Window: 90 * time.Minute},
		"9007199254740991/1w": {Quota: 1<<53 - 1, Window: 7 * day},

		// Every unit, with and without a number. Milliseconds are not minutes.
		"1/ms": {Quota: 1, Window: time.Millisecond}, "1/millisecond": {Quota: 1, Window: time.Millisecond},
		"1/5ms": {Quota: 1, Window: 5 * time.Millisecond}, "1/5milliseconds": {Quota: 1, Window: 5 * time.Millisecond},
		"1/1500us": {Quota: 1, Window: 1500 * time.Microsecond}, "1/1500µs": {Quota: 1, Window: 1500 * time.Microsecond},
		"1/sec": {Quota: 1, Window: time.Second}, "1/30s": {Quota: 1, Window: 30 * time.Second},
		"1/30secs": {Quota: 1, Window: 30 * time.Second}, "1/30seconds": {Quota: 1, Window: 30 * time.Second},
		"1/m": {Quota: 1, Window: time.Minute}, "1/5m": {Quota: 1, Window: 5 * time.Minute},
		"1/min": {Quota: 1, Window: time.Minute}, "1/5minutes": {Quota: 1, Window: 5 * time.Minute},
		"1/h": {Quota: 1, Window: time.Hour}, "1/2hours": {Quota: 1, Window: 2 * time.Hour},
		"1/d": {Quota: 1, Window: day}, "1/7d": {Quota: 1, Window: 7 * day}, "1/1day": {Quota: 1, Window: day},
		"1/w": {Quota: 1, Window: 7 * day}, "1/1w": {Quota: 1, Window: 7 * day}, "1/2weeks": {Quota: 1, Window: 14 * day},

		// Options, in any order.
		"1/s sliding-window":                  {Quota: 1, Window: time.Second, Algorithm: slidegate.SlidingWindow},
		"1/s algorithm=sliding-log":           {Quota: 1, Window: time.Second, Algorithm: log},
		"1/s fixed-window anchor=first":       {Quota: 1, Window: time.Second, Algorithm: fixed, Anchor: slidegate.AnchorFirst},
		"1/s overlap=up anchor=clock":         {Quota: 1, Window: time.Second, Algorithm: slidegate.SlidingWindow},
		"1/s segments=0":                      {Quota: 1, Window: time.Second, Algorithm: slidegate.SlidingWindow},
		"1/s overlap=down":                    {Quota: 1, Window: time.Second, Overlap: slidegate.OverlapDown},
		"100000/1m hold=5m":                   {Quota: 100_000, Window: time.Minute, Hold: 5 * time.Minute},
		"20/1s token-bucket burst=40":         {Quota: 20, Window: time.Second, Algorithm: bucket, Burst: 40},
		"20 per 1s burst=40 token-bucket":     {Quota: 20, Window: time.Second, Algorithm: bucket, Burst: 40},
		"100/ 1m":                             {Quota: 100, Window: time.Minute},
		"100 /1m":                             {Quota: 100, Window: time.Minute},
		"10/seconds":                          {Quota: 10, Window: time.Second},
		"1/1m segments=1":                     {Quota: 1, Window: time.Minute, Segments: 1},
		"1/1m count-refused":                  {Quota: 1, Window: time.Minute, CountRefused: true},
		"5/1m name=login sliding-log":         {Name: "login", Quota: 5, Window: time.Minute, Algorithm: log},
		`5/1m name="login"`:                   {Name: "login", Quota: 5, Window: time.Minute},
		`5/1m name="sign in" count-refused`:   {Name: "sign in", Quota: 5, Window: time.Minute, CountRefused: true},
		`5/1m name="say \"when\"" segments=2`: {Name: `say "when"`, Quota: 5, Window: time.Minute, Segments: 2},
		`5/1m name="\xff\x00é"`:               {Name: "\xff\x00é", Quota: 5, Window: time.Minute},
		`5/1m name="a=b/c per d"`:             {Name: "a=b/c per d", Quota: 5, Window: time.Minute},
		`5/1m name="overlap=down"`:            {Name: "overlap=down", Quota: 5, Window: time.Minute},
		`5/1m name=a=b`:                       {Name: "a=b", Quota: 5, Window: time.Minute},

		// Slots and calendar windows.
		"50 in-flight ttl=30s":            {Quota: 50, Window: 30 * time.Second, Algorithm: slidegate.InFlight},
		"50 algorithm=in-flight ttl=1d":   {Quota: 50, Window: day, Algorithm: slidegate.InFlight},
		"1000/month":                      {Quota: 1000, Calendar: rule.Month},
		"1000 per 1month":                 {Quota: 1000, Calendar: rule.Month},
		"9/y zone=Asia/Tokyo":             {Quota: 9, Calendar: rule.Year, Zone: "Asia/Tokyo"},
		"9/day zone=UTC":                  {Quota: 9, Calendar: rule.Day, Zone: "UTC"},
		"9/1w zone=UTC anchor=clock":      {Quota: 9, Calendar: rule.Week, Zone: "UTC"},
		"9/month fixed-window overlap=up": {Quota: 9, Calendar: rule.Month, Algorithm: fixed},
		"6/1m segments=6 overlap=whole anchor=first count-refused name=login": {
			Name: "login", Quota: 6, Window: time.Minute, Segments: 6,
			Overlap: slidegate.OverlapWhole, Anchor: slidegate.AnchorFirst, CountRefused: true,
		},
	} {
		got, err := slidegate.ParseLimit(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got != want {
			t.Errorf("%q is %#v, want %#v", text, got, want)
		}
	}
}

func TestParseLimitRejectsRates(t *testing.T) {
	checkRejected(t, map[string]string{
		"":            "a quota and a window",
		"   ":         "a quota and a window",
		"100":         "a quota and a window",
		"100 1m":      "a quota and a window",
		"100 per":     "a quota and a window",
		"per 1m":      "a quota and a window",
		"/1m":         "quota:",
		"ten/1m":      "quota:",
		"1.5/1m":      "quota:",
		"0/1m":        "quota:",
		"-1/1m":       "quota:",
		"1/1m per 2m": "quota:",

		"9007199254740992/1m":      "quota:", // 2^53
		"9223372036854775808/1m":   "quota:", // 2^63
		"10001/1m sliding-log":     "quota:",
		"100/":                     "window:",
		"100/1":                    "window:",
		"100/1x":                   "window:",
		"100/2months":              "window: \"2months\" is not one calendar month; write month",
		"100 per 2 months":         "window: \"2\" has no unit",
		"100/0year":                "window:",
		"50":                       "50 in-flight ttl=30s",
		"x in-flight ttl=30s":      "quota:",
		"0 in-flight ttl=30s":      "quota:",
		"10001 in-flight ttl=30s":  "quota:",
		"50 in-flight":             "ttl: missing",
		"50 in-flight ttl=":        "ttl:",
		"50 in-flight ttl=month":   "ttl:",
		"50 in-flight ttl=1us":     "ttl:",
		"50 in-flight ttl=1500ns":  "ttl:",
		"50/1m in-flight":          "write 50 in-flight ttl=1m",
		"50/1m in-flight ttl=5s":   "window:",
		"50/month in-flight":       "window: an in-flight limit has a time to live instead; write 50 in-flight ttl=30s",
		"50/1m ttl=5s":             "write 50 in-flight ttl=5s",
		"100/0s":                   "window:",
		"100/-1m":                  "window:",
		"100/-7d":                  "window:",
		"100/999us":                "window:",
		"100/1000500ns":            "window:",
		"100/9999w":                "window:",
		"100/9223372036854775807d": "window:",
		"100/-62252984097165d":     "window:", // times a day it wraps around to a positive duration
	})
}

func TestParseLimitRejectsOptions(t *testing.T) {
	checkRejected(t, map[string]string{
		"1/m segments":                     "segments:",
		"1/m segments=":                    "segments:",
		"1/m segments=six":                 "segments:",
		"1/m segments=65":                  "segments:",
		"1/m segments=-1":                  "segments:",
		"1/s segments=7":                   "segments:",
		"1/s sliding-log segments=2":       "segments:",
		"1/m burst=2":                      "burst:",
		"1/m hold":                         "hold:",
		"1/m hold=0":                       "hold: must be 1ms",
		"1/m hold=5":                       "hold: \"5\" has no unit",
		"1/m hold=1500ns":                  "hold: 1.5µs is not a whole number of microseconds",
		"1/m hold=5m lease":                "hold: units of a limit with lease",
		"1/m hold=5m count-refused":        "hold: a limit with count_refused",
		"5 in-flight ttl=1s hold=5m":       "hold: a slot of an in-flight limit",
		"1/m token-bucket burst=many":      "burst:",
		"1/m token-bucket burst=-2":        "burst:",
		"1/1w token-bucket burst=300":      "burst:",
		"1/m overlap=":                     "overlap:",
		"1/m overlap=sideways":             "overlap:",
		"1/m fixed-window overlap=whole":   "overlap:",
		"1/m anchor=last":                  "anchor:",
		"1/m token-bucket anchor=first":    "anchor:",
		"1/m algorithm=leaky-bucket":       "algorithm:",
		"1/m default":                      "algorithm: must be one of sliding-window, sliding-log, fixed-window, token-bucket, in-flight, not \"default\"; for the default, leave it out",
		"1/m algorithm=default":            "leave it out",
		"1/24h zone=UTC":                   "write, for example, 1/day zone=UTC",
		"1/7d zone=UTC":                    "zone:",
		"1/2months zone=UTC":               "window:",
		"1/month zone=Local":               "zone: Local",
		"1/month zone=Mars/Olympus":        "zone:",
		"1/month zone=":                    "zone: missing",
		"5 in-flight ttl=1s zone=UTC":      "zone:",
		"5 in-flight ttl=1s overlap=down":  "overlap:",
		"5 in-flight ttl=1s count-refused": "count_refused:",
		"1/month sliding-log":              "algorithm: calendar windows are fixed-window, not sliding-log",
		"1/day zone=UTC segments=2":        "segments:",
		"1/month anchor=first":             "anchor:",
		"1/month burst=2":                  "burst:",
		`1/m name="login`:                  "name:",
		`1/m name="\q"`:                    "name:",
		"1/m notify=80%":                   "notify stands last, and only in the limits of a policy file",
		"1/m leaky-bucket":                 `unknown option "leaky-bucket"`,
		"1/m count-refused=false":          `unknown option "count-refused=false"`,
		"1/m Segments=2":                   `unknown option "Segments=2"`,
		"1/m name=sign in":                 `unknown option "in"`,
		"1/m segments=2, overlap=whole":    "segments:",
	})
}

// checkRejected checks that every error says what is wrong, and names the field if there is one, so that the author of the
// text knows where to look.
func checkRejected(t *testing.T, want map[string]string) {
	t.Helper()
	for text, field := range want {
		got, err := slidegate.ParseLimit(text)
		switch {
		case err == nil:
			t.Errorf("%q: got %v, want an error", text, got)
		case got != slidegate.Limit{}:
			t.Errorf("%q: got the limit %v along with an error", text, got)
		case !errors.Is(err, slidegate.ErrLimit):
			t.Errorf("%q: got %v, want an ErrLimit", text, err)
		case !strings.Contains(err.Error(), field):
			t.Errorf("%q: got %v, want it to contain %q", text, err, field)
		case !strings.HasPrefix(err.Error(), "slidegate: "):
			t.Errorf("%q: got %v, want it to begin with the package", text, err)
		}
		var wrong *slidegate.LimitError
		if !errors.As(err, &wrong) || wrong.Text != text || !strings.HasPrefix(wrong.Err.Error(), "invalid limit: ") {
			t.Errorf("%q: %#v, want a LimitError with the text and the reason", text, err)
		}
	}
}

func TestMustParseLimit(t *testing.T) {
	if got, want := slidegate.MustParseLimit("100/1m"), slidegate.PerMinute(100); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, slidegate.ErrLimit) {
			t.Errorf("an invalid constant panicked with %v, want an ErrLimit", err)
		}
	}()
	slidegate.MustParseLimit("100")
	t.Error("an invalid constant did not panic")
}

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
		"1/1s name=login count-refused":  `1/1s count-refused name="login"`,
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
	for period, want := range map[rule.Period]string{
		rule.Day: "5/day zone=UTC", rule.Week: "5/week zone=UTC", rule.Month: "5/month", rule.Year: "5/year",
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
			Quota:        1 + random.Int64()>>(10+random.UintN(53)),
			Window:       time.Duration(1+random.IntN(1000)) * units[random.IntN(len(units))],
			Algorithm:    rule.Algorithm(random.UintN(6)),
			Overlap:      rule.Overlap(random.UintN(3)),
			Anchor:       rule.Anchor(random.UintN(2)),
			CountRefused: random.UintN(2) == 0,
		}
		if random.UintN(4) == 0 {
			limit.Hold = time.Duration(1+random.IntN(1000)) * units[random.IntN(len(units))]
		}
		if random.UintN(2) == 0 {
			limit.Segments = random.IntN(65)
		}
		if random.UintN(4) == 0 {
			limit.Window, limit.Calendar = 0, rule.Period(1+random.UintN(4))
			limit.Zone = []string{"UTC", "Europe/Berlin", "Asia/Kathmandu"}[random.UintN(3)]
			if limit.Calendar >= rule.Month && random.UintN(2) == 0 {
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
		if adapter.Check(limit) == nil {
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
		"6/1m segments=6 overlap=whole anchor=first count-refused name=login", `1/s name="\xff \"x\""`, `1/s name="`, "/", "=",
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
