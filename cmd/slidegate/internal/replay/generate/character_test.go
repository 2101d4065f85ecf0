package generate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// The characteristics of each shape, with the default options.

// byKey counts the requests of each key.
func byKey(list []request) map[string]int {
	count := map[string]int{}
	for _, r := range list {
		count[r.key]++
	}
	return count
}

// byKind counts the requests of users, bots and so on.
func byKind(list []request) map[string]int {
	count := map[string]int{}
	for _, r := range list {
		kind, _, _ := strings.Cut(r.key, "-")
		count[kind]++
	}
	return count
}

// withPrefix returns the requests of the keys with a prefix.
func withPrefix(list []request, prefix string) (some []request) {
	for _, r := range list {
		if strings.HasPrefix(r.key, prefix) {
			some = append(some, r)
		}
	}
	return some
}

// mostAtOnce returns the most requests of any key in one clock window.
func mostAtOnce(list []request, window, shift rule.Micros) (most int) {
	type cell struct {
		key    string
		window rule.Micros
	}
	count := map[cell]int{}
	for _, r := range list {
		c := cell{r.key, (r.at + shift) / window}
		count[c]++
		most = max(most, count[c])
	}
	return most
}

func TestSteady(t *testing.T) {
	list := readAll(t, Options{Shape: Steady})
	var minutes [60]float64
	for _, r := range list {
		minutes[r.at/minuteMicros%60]++
	}
	for i, n := range minutes {
		checkNear(t, "requests of a minute", n, 100_000.0/60, math.Sqrt(100_000.0/60))
		if n == 0 {
			t.Errorf("got no requests in minute %d", i)
		}
	}
	count := byKey(list)
	if len(count) != 1_000 {
		t.Errorf("got %d keys, want 1,000", len(count))
	}
	for _, n := range count {
		checkNear(t, "requests of a key", float64(n), 100, 10)
	}
}

func TestDiurnal(t *testing.T) {
	hours, days := map[int]float64{}, map[time.Weekday]float64{}
	for _, r := range readAll(t, Options{Shape: Diurnal, Requests: 1_000_000}) {
		at := time.UnixMicro(int64(r.at)).UTC()
		hours[at.Hour()]++
		days[at.Weekday()]++
	}
	// From 15:00 to 16:00 the rate falls from 100 to 97, from 03:00 to 04:00 it is 8.
	if ratio := hours[15] / hours[3]; ratio < 11.5 || ratio > 13 {
		t.Errorf("the afternoon has %.1f times the requests of the night, want about 12.3", ratio)
	}
	for hour, n := range hours {
		if n > hours[15]*1.01 && hour != 14 { // from 98 to 100, about the same
			t.Errorf("hour %d has more requests than the afternoon: %v to %v", hour, n, hours[15])
		}
	}
	for _, day := range []time.Weekday{time.Saturday, time.Sunday} {
		if ratio := days[day] / days[time.Wednesday]; ratio < 0.58 || ratio > 0.62 {
			t.Errorf("%v has %.2f of a Wednesday, want 0.6", day, ratio)
		}
	}
	if ratio := days[time.Friday] / days[time.Monday]; ratio < 0.98 || ratio > 1.02 {
		t.Errorf("a Friday has %.2f of a Monday, want as much", ratio)
	}
}

func TestZipf(t *testing.T) {
	count := byKey(readAll(t, Options{Shape: Zipf}))
	top := 0
	for _, key := range []string{
		"user-0001", "user-0002", "user-0003", "user-0004", "user-0005",
		"user-0006", "user-0007", "user-0008", "user-0009", "user-0010",
	} {
		top += count[key]
	}
	// The weights beyond k+1/2 sum to about 8/(k+1/2)^(1/8), those of all to 8.586: the first ten have 8.586 - 5.963 of
	// 8.586 - 3.373.
	if top < 49_500 || top > 51_100 {
		t.Errorf("1 %% of the keys has %d of 100,000 requests, want about 50,300", top)
	}
	if half := float64(count["user-0001"]) / float64(count["user-0002"]); half < 2.05 || half > 2.31 { // 2^(9/8) = 2.18
		t.Errorf("the first key has %.2f times the requests of the second, want about 2.18", half)
	}
}

func TestEdges(t *testing.T) {
	list := readAll(t, Options{Shape: Edges})
	near := 0
	for _, r := range list {
		if part := r.at % minuteMicros; part < minuteMicros/20 || part >= minuteMicros-minuteMicros/20 {
			near++
		}
	}
	if near < 90_000 {
		t.Errorf("%d of 100,000 requests are within 5 %% of a boundary, want 90 %% or more", near)
	}
	if n := byKind(list)["edge"]; n != 90_000 {
		t.Errorf("%d requests are of edge keys, want 90,000", n)
	}
	bursts := withPrefix(list, "edge-")
	clock, across := mostAtOnce(bursts, minuteMicros, 0), mostAtOnce(bursts, minuteMicros, minuteMicros/2)
	// 1525 requests at a boundary, of 12 keys: 127 each, half of them before it. The largest of many vary upwards.
	if clock < 65 || clock > 120 || across < 127 || across > 200 {
		t.Errorf("%d at most in a window of the clock, %d in one across a boundary; want about twice as many", clock, across)
	}
}

// A fixed window admits up to twice its quota within one window from the bursts, and an exact log does not.
func TestEdgesDoubleAFixedWindow(t *testing.T) {
	const quota = 60
	bursts := withPrefix(readAll(t, Options{Shape: Edges}), "edge-")
	most := func(a rule.Algorithm) int {
		limit, err := rule.Limit{Algorithm: a, Quota: quota, Window: minuteMicros}.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]*rule.State{}
		var admitted []request
		for _, r := range bursts {
			if states[r.key] == nil {
				states[r.key] = &rule.State{}
			}
			if answer, _ := limit.TakeOne(states[r.key], r.at, 1); answer.Allowed {
				admitted = append(admitted, r)
			}
		}
		return mostAtOnce(admitted, minuteMicros, minuteMicros/2)
	}
	if got := most(rule.FixedWindow); got != 2*quota {
		t.Errorf("a fixed window admits %d in a minute, want %d", got, 2*quota)
	}
	if got := most(rule.SlidingLog); got != quota {
		t.Errorf("an exact log admits %d in a minute, want %d", got, quota)
	}
}

func TestScraper(t *testing.T) {
	list := readAll(t, Options{Shape: Scraper})
	scraped := withPrefix(list, "scraper-1")
	if len(scraped) != 40_000 {
		t.Fatalf("got %d requests of the scraper, want 40,000", len(scraped))
	}
	// Three raids of 5 minutes: 13,333 requests each, with no gap of a second, and silence in between.
	starts := []int{0}
	for i := 1; i < len(scraped); i++ {
		if scraped[i].at-scraped[i-1].at > 1e6 {
			starts = append(starts, i)
		}
	}
	if len(starts) != 3 {
		t.Fatalf("got %d raids, want 3", len(starts))
	}
	for i, from := range starts {
		raid := scraped[from:append(starts, len(scraped))[i+1]]
		checkNear(t, "requests of a raid", float64(len(raid)), 40_000.0/3, math.Sqrt(40_000*2.0/9))
		if length := raid[len(raid)-1].at - raid[0].at; length > 5*minuteMicros || length < 5*minuteMicros-1e6 {
			t.Errorf("raid %d lasts %d microseconds, want 5 minutes", i, length)
		}
	}
	if quiet := mostAtOnce(withPrefix(list, "user-"), minuteMicros, 0); quiet > 10 {
		t.Errorf("a user sends %d requests in a minute, want a quiet background", quiet)
	}
}

func TestBotnet(t *testing.T) {
	list := readAll(t, Options{Shape: Botnet})
	bots := withPrefix(list, "bot-")
	if len(bots) != 70_000 {
		t.Fatalf("got %d requests of bots, want 70,000", len(bots))
	}
	count := byKey(bots)
	if len(count) != 14_000 {
		t.Errorf("got %d bots, want 14,000", len(count))
	}
	for key, n := range count {
		if n != 5 {
			t.Errorf("%s sends %d requests, want its share, 5", key, n)
			break
		}
	}
	// A turn takes a fifth of 42 minutes.
	if most := mostAtOnce(bots, minuteMicros, 0); most != 1 {
		t.Errorf("a bot sends %d requests in a minute, want 1", most)
	}
	from := list[0].at / hourMicros * hourMicros
	if first, last := bots[0].at-from, bots[len(bots)-1].at-from; first < 12*minuteMicros || last >= 54*minuteMicros {
		t.Errorf("the bots are at work from %d to %d microseconds, want from minute 12 to 54", first, last)
	}
	inOrder := 0
	for i := 1; i < len(bots); i++ {
		if bots[i-1].key < bots[i].key && bots[i].key[:7] == bots[i-1].key[:7] {
			inOrder++
		}
	}
	if inOrder > len(bots)/20 {
		t.Errorf("%d of the bots come right after their neighbour, want them to look random", inOrder)
	}
}

func TestMixed(t *testing.T) {
	list := readAll(t, Options{})
	got := byKind(list)
	for kind, want := range map[string]int{"user": 70_000, "scraper": 15_000, "bot": 10_000, "edge": 5_000} {
		if got[kind] != want {
			t.Errorf("the kind %s has %d requests, want %d", kind, got[kind], want)
		}
	}
	if n := byKey(list)["user-0001"]; n < 13_000 || n > 13_900 { // 19.2 % of 70,000, by Zipf's law
		t.Errorf("the first user has %d requests, want about 13,430", n)
	}
	// 5000 requests are 41 bursts, of one key each.
	if across := mostAtOnce(withPrefix(list, "edge-"), minuteMicros, minuteMicros/2); across < 122 {
		t.Errorf("an edge key sends %d in the minute around a boundary, want 122 or more", across)
	}
}

func TestMixedFollowsTheDay(t *testing.T) {
	hours := map[int]float64{}
	for _, r := range withPrefix(readAll(t, Options{Span: 24 * time.Hour}), "user-") {
		hours[time.UnixMicro(int64(r.at)).UTC().Hour()]++
	}
	if ratio := hours[15] / hours[3]; ratio < 10 || ratio > 15 {
		t.Errorf("the afternoon has %.1f times the requests of the night, want about 12.3", ratio)
	}
}
