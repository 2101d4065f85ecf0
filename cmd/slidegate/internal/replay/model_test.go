package replay

import (
	"context"
	"flag"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// A slow, obvious replay that the real one is compared with: a map of states, the plain rule, every request kept.

const (
	milli  = rule.Micros(1_000)
	second = 1_000 * milli
	minute = 60 * second
	hour   = 60 * minute
)

// origin is the start of synthetic traffic, at midnight, so that expectations can be worked out by hand.
const origin = 1_767_571_200 * second

// testRequest is one request.
type testRequest struct {
	at   rule.Micros
	key  string
	cost int64
}

// list is traffic from a slice. It overwrites the bytes of a line at the next call, as a reader of files may.
type list struct {
	rest  []testRequest
	spell func(rule.Micros) string // formats times; nil means as a number
	key   []byte
	time  []byte
}

func (l *list) Next(line *traffic.Line) error {
	for i := range l.key {
		l.key[i] = '?'
	}
	for i := range l.time {
		l.time[i] = '?'
	}
	if len(l.rest) == 0 {
		return io.EOF
	}
	a := l.rest[0]
	l.rest = l.rest[1:]
	l.key = append(l.key[:0], a.key...)
	if l.spell != nil {
		l.time = append(l.time[:0], l.spell(a.at)...)
	} else {
		l.time = strconv.AppendInt(l.time[:0], int64(a.at), 10)
	}
	*line = traffic.Line{At: a.at, Key: l.key, Cost: a.cost, Time: l.time}
	return nil
}

// find replays traffic, which must be readable to its end.
func find(t tb, opts Options, reqs []testRequest) *Findings {
	t.Helper()
	found, err := Run(context.Background(), &list{rest: reqs}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tb is the common interface of *testing.T and *rapid.T.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// modelDecision is the decision of the plain model on one request.
type modelDecision struct {
	testRequest
	allowed bool
	answers []rule.Answer
	states  []rule.State // of its key, afterwards
}

// decideAll decides every request in the given order, using only the rule.
func decideAll(t tb, limits []slidegate.Limit, reqs []testRequest) []modelDecision {
	t.Helper()
	rules := rulesOf(t, limits)
	states := map[string][]rule.State{}
	var all []modelDecision
	for _, a := range reqs {
		own := states[a.key]
		if own == nil {
			own = make([]rule.State, len(limits))
			states[a.key] = own
		}
		items := make([]rule.Item, len(limits))
		for i := range items {
			items[i] = rule.Item{Limit: &rules[i], State: &own[i], Cost: a.cost}
		}
		v := modelDecision{testRequest: a, allowed: true, answers: make([]rule.Answer, len(limits))}
		rule.Decide(rule.Take, items, a.at, v.answers)
		for i := range own {
			v.allowed = v.allowed && v.answers[i].Allowed
			v.states = append(v.states, own[i].Clone())
		}
		all = append(all, v)
	}
	return all
}

func rulesOf(t tb, limits []slidegate.Limit) []rule.Limit {
	t.Helper()
	var rules []rule.Limit
	for _, limit := range limits {
		bound, err := adapter.Bind("", limit)
		if err != nil {
			t.Fatalf("the limit %v: %v", limit, err)
		}
		rules = append(rules, *bound.Rule())
	}
	return rules
}

// numbered returns requests as the feed sends them, and the names of their keys.
func numbered(reqs []testRequest) ([]request, []string) {
	var requests []request
	var names []string
	for i, a := range reqs {
		number := slices.Index(names, a.key)
		if number < 0 {
			number = len(names)
			names = append(names, a.key)
		}
		requests = append(requests, request{at: a.at, cost: a.cost, seq: int64(i), key: uint32(number)})
	}
	return requests, names
}

// drawLimit returns a limit of any algorithm whose window is short enough for drawn traffic to fill it.
func drawLimit(t *rapid.T, name string) slidegate.Limit {
	l := slidegate.Limit{
		Name: name, Quota: rapid.Int64Range(1, 12).Draw(t, "quota"),
		Algorithm: rapid.SampledFrom([]rule.Algorithm{
			slidegate.SlidingWindow, slidegate.SlidingLog, slidegate.FixedWindow, slidegate.TokenBucket, rule.DefaultAlgorithm,
		}).Draw(t, "algorithm"),
		CountRefused: rapid.Bool().Draw(t, "count refused"),
	}
	l.Window = time.Duration(rapid.Int64Range(1, 50).Draw(t, "window")) * 60 * time.Millisecond // 60 divides by all segments below
	switch l.Algorithm {
	case rule.DefaultAlgorithm:
		l.Quota = rapid.SampledFrom([]int64{l.Quota, l.Quota, 100, 101, 130}).Draw(t, "quota of the default")
	case slidegate.SlidingWindow:
		l.Overlap = rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
		l.Segments = rapid.SampledFrom([]int{0, 1, 1, 2, 3, 10, 60}).Draw(t, "segments")
		fallthrough
	case slidegate.FixedWindow:
		l.Anchor = rule.Anchor(rapid.IntRange(0, 1).Draw(t, "anchor"))
	case slidegate.TokenBucket:
		l.Burst = rapid.SampledFrom([]int64{0, 1, l.Quota, 3 * l.Quota, 1000 * l.Quota}).Draw(t, "burst")
	}
	return l
}

// steps describes how the times of drawn traffic change.
type steps int

const (
	forward steps = iota // never back
	around               // a little back now and then
	jumping              // also far back and far ahead
)

// drawTraffic returns up to n requests of few keys, often at times at which something changes in a window.
func drawTraffic(t *rapid.T, window time.Duration, n int, how steps) []testRequest {
	w := window.Microseconds()
	now := origin + rule.Micros(rapid.Int64Range(0, 2*w).Draw(t, "from"))
	keys := rapid.IntRange(1, 4).Draw(t, "keys")
	var reqs []testRequest
	for range rapid.IntRange(1, n).Draw(t, "requests") {
		now = max(1, now+drawStep(t, rule.Micros(w), now, how))
		reqs = append(reqs, testRequest{
			at: now, key: "key-" + strconv.Itoa(rapid.IntRange(1, keys).Draw(t, "key")),
			cost: rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 3, 0, 7, 15, 1, 2, 40}).Draw(t, "cost"),
		})
	}
	return reqs
}

func drawStep(t *rapid.T, w, now rule.Micros, how steps) rule.Micros {
	switch kind := rapid.IntRange(0, 11).Draw(t, "step"); {
	case kind <= 1:
		return 0
	case kind <= 5:
		return rule.Micros(rapid.Int64Range(1, int64(w)/8).Draw(t, "a little"))
	case kind == 6:
		return rule.Micros(rapid.Int64Range(1, int64(2*w)).Draw(t, "within two windows"))
	case kind == 7:
		return w
	case kind == 8: // where windows of the clock begin, and a microsecond before
		return w - now%w - rule.Micros(rapid.Int64Range(0, 1).Draw(t, "before"))
	case kind == 9 && how >= around:
		return rule.Micros(-rapid.Int64Range(1, int64(w)).Draw(t, "a little back"))
	case kind == 10 && how == jumping:
		return rapid.SampledFrom([]rule.Micros{-w, -w - 1, -w - 2, -3 * w, -50 * w, -now, 5 * w, 4000 * w, 24 * hour * 1000}).Draw(t, "jump")
	default:
		return rule.Micros(rapid.Int64Range(1, int64(w)/2).Draw(t, "half a window"))
	}
}

// property checks prop n times, or as often as -rapid.checks says, and prints the seed if it fails.
func property(t *testing.T, n int, prop func(*rapid.T)) {
	t.Helper()
	if testing.Short() {
		n = max(1, n/10)
	}
	if times, err := strconv.Atoi(os.Getenv("TEST_LONG")); err == nil {
		n *= times
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" && !checksSet })
	if !given {
		setFlag(t, "rapid.checks", strconv.Itoa(n))
		checksSet = true
	}
	setFlag(t, "rapid.nofailfile", "true")
	rapid.Check(t, prop)
}

// checksSet reports whether rapid.checks was set here and not on the command line.
var checksSet bool

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}
