package main

import (
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestSpeedIsTheSameEverywhere checks that README.md and docs/scaling.md repeat the figures of docs/benchmarks.md, and that ratios fit the times beside them. Times are measured on an idle machine, so no test can measure them.
func TestSpeedIsTheSameEverywhere(t *testing.T) {
	benchmarks := readPage(t, filepath.Join(docs, "benchmarks.md"))
	readme := readPage(t, "../../README.md")
	scaling := readPage(t, filepath.Join(docs, "scaling.md"))

	times := func(row string) []string {
		return benchmarks.find(t, `\| `+row+` \| (\d+) \| (\S+) (\d+) \| (\S+)x \| (\d+) \| (\S+) (\d+) \| (\S+)x \|`)
	}
	admitted, many := times("one hot key, allowed"), times("1M keys, 1 unit each")
	timed := regexp.MustCompile(` (\d+) \| [a-z-]+ (\d+) \| (\S+)x \|`).FindAllStringSubmatch(benchmarks.text, -1)
	if len(timed) < 8 {
		t.Fatalf("benchmarks.md: found %d times beside those of a peer, want at least 8; change the pattern with the page", len(timed))
	}
	for _, three := range timed {
		own, peer, ratio := float(t, three[1]), float(t, three[2]), float(t, three[3])
		if math.Abs(peer/own-ratio) > 0.1 {
			t.Errorf("benchmarks.md: %v ns and %v ns are %.2fx, got %vx", peer, own, peer/own, ratio)
		}
	}
	readme.repeats(t, `one hot key, one processor: (\d+) ns, no allocation \| the fastest peer, (\S+) \| (\S+)x`, admitted[0], admitted[1], admitted[3])
	readme.repeats(t, `a million keys, two processors: (\d+) ns \| the fastest peer, (\S+) \| (\S+)x`, many[4], many[5], many[7])

	redis := benchmarks.find(t, "`coalesce` over `redisstore` \\| (\\S+)x the fastest limiter, used as documented \\((\\w+);.*?, (\\S+)x plain `INCR`")
	readme.repeats(t, "64 callers, 10,000 keys \\| the fastest peer, (\\w+); a plain `INCR` \\| (\\S+)x; (\\S+)x", redis[1], redis[0], redis[2])
	scaling.repeats(t, `over Redis this decides (\S+) times as many requests per second`, redis[0])
	readme.repeats(t, `the service, JSON, one request at a time \| a handler that answers a constant \| (\S+)x`,
		benchmarks.find(t, `JSON, one request at a time \| (\S+)x of a handler that answers a constant`)...)
}

// find returns the groups of a pattern in a page.
func (p page) find(t *testing.T, pattern string) []string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(p.text)
	if match == nil {
		t.Fatalf("%s has no text like %s; change the pattern with the page", p.name, pattern)
	}
	return match[1:]
}

// repeats checks the groups of a pattern in a page.
func (p page) repeats(t *testing.T, pattern string, want ...string) {
	t.Helper()
	for i, got := range p.find(t, pattern) {
		if got != want[i] {
			t.Errorf("%s: %s: got %s, want %s as in benchmarks.md", p.name, pattern, got, want[i])
		}
	}
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
