package replay

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// These tests check that the default is exact up to a quota of 100, and that it stays the same when quotas are changed.

// bursts returns traffic with bursts around the boundaries of minutes.
func bursts() (reqs []testRequest) {
	random := rand.New(rand.NewPCG(6, 60))
	at := origin
	for range 20_000 {
		at += rule.Micros(random.Int64N(int64(200 * milli)))
		if random.IntN(300) == 0 { // to shortly before the next minute
			at += minute - at%minute - rule.Micros(random.Int64N(int64(3*second)))
		}
		reqs = append(reqs, testRequest{at, string(rune('a' + random.IntN(3))), 1 + random.Int64N(2)})
	}
	return reqs
}

// By default, no window of 60 seconds has more than 60 admissions. A sliding-window admits more, which is why the default
// is a log.
func TestDefaultNeverExceedsItsQuota(t *testing.T) {
	reqs := bursts()
	highest := func(text string) int64 {
		return find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}}, reqs).Outcome.Limits[0].Highest.Units
	}
	if got := highest("60/1m"); got != 60 {
		t.Errorf("got highest %d by default, want exactly 60 in such traffic", got)
	}
	if got := highest("60/1m sliding-window"); got <= 60 {
		t.Errorf("got highest %d for a sliding-window, want more than 60: the traffic is too tame for this test", got)
	}
}

// A sweep from 50 to 500 over 60/1m compares logs with logs.
func TestSweepKeepsTheDefault(t *testing.T) {
	reqs := bursts()
	sweep := func(text string) []SweepPoint {
		opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}, Sweep: []int64{50, 100, 101, 200, 500}}
		return find(t, opts, reqs).Sweep.Points
	}
	if got, want := sweep("60/1m"), sweep("60/1m sliding-log"); !slices.Equal(got, want) {
		t.Errorf("60/1m: got %+v, want that of a log, %+v", got, want)
	}
	if got, want := sweep("600/1m"), sweep("600/1m sliding-window"); !slices.Equal(got, want) {
		t.Errorf("600/1m: got %+v, want that of a sliding-window, %+v", got, want)
	}
	if slices.Equal(sweep("60/1m sliding-log"), sweep("60/1m sliding-window")) {
		t.Error("got the same for a log and a sliding-window: the traffic is too tame for this test")
	}
}

// The quota of a log is at most 10,000, and the error says how to go beyond that.
func TestDefaultBeyondLogQuota(t *testing.T) {
	ownTemp(t)
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("60/1m name=api")}, Sweep: []int64{100, 20_000}}
	reqs := []testRequest{{origin, "a", 12_000}}
	const why = `60/1m name="api" is a sliding-log, and other quotas are tried with the same algorithm, at most 10000; ` +
		`name the algorithm: 60/1m sliding-window name="api"`
	_, err := Run(context.Background(), &list{rest: reqs}, opts)
	if want := "replay: Sweep: quota 20000: " + why; err == nil || err.Error() != want {
		t.Errorf("the sweep: got %v, want %s", err, want)
	}
	opts.Sweep, opts.Suggest = nil, true
	found, err := Run(context.Background(), &list{rest: reqs}, opts)
	if want := "replay: Suggest: the quota would be 12000: " + why; err == nil || err.Error() != want || found == nil {
		t.Errorf("the suggestion: got %v, want %s", err, want)
	}
	opts.Limits[0].Algorithm = slidegate.SlidingWindow
	if got := find(t, opts, reqs).Suggestion.Outcome.Limits[0].Limit; got != `12000/1m sliding-window name="api"` {
		t.Errorf("got suggestion %s, want 12000/1m sliding-window name=\"api\"", got)
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
      - {key: =pro, limits: [600/1m, 50/1h name=hourly]}
      - {key: =named, limits: [600/1m sliding-window]}
      - {key: =apart, limits: [600/10m, 50/1h name=other]}
`))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := routing.New(file, "")
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
		t.Errorf("got limits %q, want %q", got, want)
	}
}

// A log does not record how long requests took.
func TestSlotsAreNotReplayed(t *testing.T) {
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("100/1m"), slidegate.MustParseLimit("50 in-flight ttl=30s")}}
	want := "replay: Limits: 50 in-flight ttl=30s: in-flight limits cannot be replayed, because replay does not know how long requests took; leave it out"
	if err := opts.Check(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	parse := func(limits string) (*routing.Policies, error) {
		file, err := config.Parse("slidegate.yaml", []byte("policies: {api: {key: '{address}', limits: ["+limits+"]}}"))
		if err != nil {
			t.Fatal(err)
		}
		return routing.New(file, "")
	}
	policies, err := parse("100/1m, 50 in-flight ttl=30s")
	if err != nil {
		t.Fatal(err)
	}
	if limits := policies.Groups()[0].Limits; len(limits) != 1 || limits[0].String() != "100/1m" {
		t.Errorf("got %v replayed, want only 100/1m", limits)
	}
	if notes := strings.Join(policies.Notes(routing.Known{}, []int{0}), "\n"); !strings.Contains(notes, "The in-flight limits of the policy api were left out") {
		t.Errorf("got notes %q, want that in-flight limits were left out", notes)
	}
	if _, err := parse("50 in-flight ttl=30s"); err == nil || !strings.Contains(err.Error(), "--policy") {
		t.Errorf("a policy with only in-flight limits: got %v, want an error that says to choose another", err)
	}
}
