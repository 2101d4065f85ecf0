package replay

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// Is the default exact up to a quota of 100, and does it stay what it is when quotas are changed?

// bursts returns traffic that comes in bursts around the edges of minutes.
func bursts() (asks []asked) {
	random := rand.New(rand.NewPCG(6, 60))
	at := origin
	for range 20_000 {
		at += rule.Micros(random.Int64N(int64(200 * milli)))
		if random.IntN(300) == 0 { // to shortly before the next minute
			at += minute - at%minute - rule.Micros(random.Int64N(int64(3*second)))
		}
		asks = append(asks, asked{at, string(rune('a' + random.IntN(3))), 1 + random.Int64N(2)})
	}
	return asks
}

// No window of any 60 seconds holds more than 60 by default. A sliding-window lets more through, which is why it is a log.
func TestDefaultNeverShowsMoreThanItsQuota(t *testing.T) {
	asks := bursts()
	highest := func(text string) int64 {
		return find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}}, asks).Outcome.Limits[0].Highest.Units
	}
	if got := highest("60/1m"); got != 60 {
		t.Errorf("the highest by default is %d, want exactly 60 in such traffic", got)
	}
	if got := highest("60/1m sliding-window"); got <= 60 {
		t.Errorf("the highest of a sliding-window is %d: the traffic is too tame to tell", got)
	}
}

// A sweep from 50 to 500 over 60/1m compares logs with logs.
func TestSweepKeepsTheDefault(t *testing.T) {
	asks := bursts()
	sweep := func(text string) []SweepPoint {
		opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}, Sweep: []int64{50, 100, 101, 200, 500}}
		return find(t, opts, asks).Sweep.Points
	}
	if got, want := sweep("60/1m"), sweep("60/1m sliding-log"); !slices.Equal(got, want) {
		t.Errorf("60/1m: %+v, want that of a log, %+v", got, want)
	}
	if got, want := sweep("600/1m"), sweep("600/1m sliding-window"); !slices.Equal(got, want) {
		t.Errorf("600/1m: %+v, want that of a sliding-window, %+v", got, want)
	}
	if slices.Equal(sweep("60/1m sliding-log"), sweep("60/1m sliding-window")) {
		t.Error("a log and a sliding-window do the same to this traffic: it is too tame to tell")
	}
}

// What a log takes ends at 10,000, and the error says how to go beyond it.
func TestDefaultBeyondWhatALogTakes(t *testing.T) {
	ownTemp(t)
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("60/1m name=api")}, Sweep: []int64{100, 20_000}}
	asks := []asked{{origin, "a", 12_000}}
	const why = `60/1m name="api" is a sliding-log, and so are the quotas it is compared with, at most 10000; ` +
		`name the algorithm: 60/1m sliding-window name="api"`
	_, err := Run(context.Background(), &list{rest: asks}, opts)
	if want := "replay: Sweep: quota 20000: " + why; err == nil || err.Error() != want {
		t.Errorf("the sweep: %v, want %s", err, want)
	}
	opts.Sweep, opts.Suggest = nil, true
	found, err := Run(context.Background(), &list{rest: asks}, opts)
	if want := "replay: Suggest: the quota would be 12000: " + why; err == nil || err.Error() != want || found == nil {
		t.Errorf("the suggestion: %v, want %s", err, want)
	}
	opts.Limits[0].Algorithm = slidegate.SlidingWindow
	if got := find(t, opts, asks).Suggestion.Outcome.Limits[0].Limit; got != `12000/1m sliding-window name="api"` {
		t.Errorf("%s is suggested", got)
	}
}

// Overrides count like the limits of their policy, as in the service.
func TestOverridesKeepTheDefault(t *testing.T) {
	file, err := config.Parse("slidegate.yaml", []byte(`
policies:
  api:
    key: "{address}"
    limits: [60/1m, 500/1h name=hourly]
    overrides:
      - {key: pro, limits: [600/1m, 50/1h name=hourly]}
      - {key: named, limits: [600/1m sliding-window]}
      - {key: apart, limits: [600/10m, 50/1h name=other]}
`))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := facing.New(file, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, group := range policies.Groups() {
		for _, limit := range group.Limits {
			got = append(got, limit.String())
		}
	}
	want := []string{
		"60/1m", `500/1h name="hourly"`, "600/1m sliding-log", `50/1h sliding-window name="hourly"`, "600/1m sliding-window",
		"600/10m", `50/1h name="other"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the limits are %q, want %q", got, want)
	}
}

// A log does not say how long requests took.
func TestSlotsAreNotReplayed(t *testing.T) {
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("100/1m"), slidegate.MustParseLimit("50 in-flight ttl=30s")}}
	want := "replay: Limits: 50 in-flight ttl=30s: slots cannot be replayed, because replay does not know how long requests took; leave it out"
	if err := opts.Check(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	parse := func(limits string) (*facing.Policies, error) {
		file, err := config.Parse("slidegate.yaml", []byte("policies: {api: {key: '{address}', limits: ["+limits+"]}}"))
		if err != nil {
			t.Fatal(err)
		}
		return facing.New(file, "")
	}
	policies, err := parse("100/1m, 50 in-flight ttl=30s")
	if err != nil {
		t.Fatal(err)
	}
	if limits := policies.Groups()[0].Limits; len(limits) != 1 || limits[0].String() != "100/1m" {
		t.Errorf("of a policy %v are replayed, want 100/1m alone", limits)
	}
	if notes := strings.Join(policies.Notes(facing.Known{}, []int{0}), "\n"); !strings.Contains(notes, "The in-flight limits of the policy api were left out") {
		t.Errorf("the notes are %q, want that slots were left out", notes)
	}
	if _, err := parse("50 in-flight ttl=30s"); err == nil || !strings.Contains(err.Error(), "--policy") {
		t.Errorf("a policy of slots alone: %v, want an error that says to choose another", err)
	}
}
