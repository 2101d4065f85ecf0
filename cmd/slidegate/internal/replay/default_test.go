package replay

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// These tests check that the default is a hard cap, and how it is swept and suggested.

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

// By default, no window of 60 seconds has more admissions than the quota. A weighted window admits more.
func TestDefaultNeverExceedsItsQuota(t *testing.T) {
	reqs := bursts()
	highest := func(text string) int64 {
		t.Helper()
		return find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}}, reqs).Outcome.Limits[0].Highest.Units
	}
	for text, quota := range map[string]int64{"60/1m": 60, "100/1m": 100, "101/1m": 101, "200/1m": 200} {
		if got := highest(text); got != quota {
			t.Errorf("%s: got highest %d, want exactly %d in such traffic", text, got, quota)
		}
	}
	if got := highest("60/1m sliding-window"); got <= 60 {
		t.Errorf("got highest %d for a sliding-window, want more than 60: the traffic is too tame for this test", got)
	}
}

// A sweep and a suggestion try the default with other quotas: up to 100 it is as exact as a log, above that a hard cap.
func TestSweepOfTheDefault(t *testing.T) {
	reqs := bursts()
	sweep := func(text string) []SweepPoint {
		opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}, Sweep: []int64{50, 100, 101, 200, 500}}
		return find(t, opts, reqs).Sweep.Points
	}
	logs, capped := sweep("60/1m sliding-log"), sweep("60/1m segments=60 overlap=whole")
	if got, want := sweep("60/1m"), slices.Concat(logs[:2], capped[2:]); !slices.Equal(got, want) {
		t.Errorf("60/1m: got %+v, want %+v", got, want)
	}
	if got, want := sweep("600/1m"), sweep("60/1m"); !slices.Equal(got, want) {
		t.Errorf("600/1m: got %+v, want those of 60/1m, %+v", got, want)
	}
	if logs[1] == capped[1] || logs[2] == capped[2] {
		t.Error("got the same for a log and for parts: the traffic is too tame for this test")
	}
}

// 60 units at the end of a part and 45 a minute later, in the part that the window then still covers a little: a log has 60 at any
// time, and parts have 105.
func TestSuggestedDefaultByHand(t *testing.T) {
	ownTemp(t)
	last := origin + second - 1 // the last microsecond of a part
	for _, c := range []struct {
		first, second int64
		want          string
	}{
		{60, 45, "60/1m"},
		{100, 45, "100/1m"},
		{101, 45, "146/1m"}, // parts
		{90, 101, "191/1m"},
	} {
		reqs := []testRequest{{last, "a", c.first}, {last + minute, "a", c.second}}
		opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("1/1m")}, Suggest: true}
		if got := find(t, opts, reqs).Suggestion.Outcome; got.Limits[0].Limit != c.want || got.Refused != 0 {
			t.Errorf("%d and %d units: got suggestion %s, which refuses %d, want %s", c.first, c.second, got.Limits[0].Limit, got.Refused, c.want)
		}
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
