package main

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

func TestKeysDiffer(t *testing.T) {
	const n = 100_000
	a, b := newKeys(0, n), newKeys(n, n)
	seen := make(map[string]bool, 2*n)
	for i := range n {
		seen[a.at(i)], seen[b.at(i)] = true, true
	}
	if len(seen) != 2*n {
		t.Errorf("got %d different keys, want %d", len(seen), 2*n)
	}
	if n := len(a.at(0)); n < 16 || n > 20 {
		t.Errorf("got a key of %d bytes, want 16 to 20", n)
	}
}

func TestOrderDependsOnTheSeed(t *testing.T) {
	all := newKeys(0, 1000)
	for name, order := range map[string]func(int, uint64) keys{"uniform": all.uniform, "zipf": all.zipf} {
		one, same, other := order(5000, 1), order(5000, 1), order(5000, 2)
		if one.block != same.block {
			t.Errorf("%s: the same seed gives another order", name)
		}
		if one.block == other.block {
			t.Errorf("%s: another seed gives the same order", name)
		}
	}
	// Half of zipf's requests are for few keys, the same for all goroutines.
	first, second := mostCommonKey(all.zipf(5000, 1)), mostCommonKey(all.zipf(5000, 2))
	if first != second {
		t.Errorf("the most common key is %s for one goroutine and %s for another", first, second)
	}
}

func mostCommonKey(list keys) string {
	counts := map[string]int{}
	best := list.at(0)
	for i := range list.n {
		key := list.at(i)
		if counts[key]++; counts[key] > counts[best] {
			best = key
		}
	}
	return best
}

func TestHistogram(t *testing.T) {
	var h, other histogram
	for i := range 50_000 {
		h.add(time.Duration(i+1) * time.Microsecond)
		other.add(time.Duration(i+50_001) * time.Microsecond)
	}
	h.merge(&other)
	for _, c := range []struct {
		part float64
		want time.Duration
	}{{0.5, 50 * time.Millisecond}, {0.99, 99 * time.Millisecond}, {0.9999, 99_990 * time.Microsecond}, {1, 100 * time.Millisecond}} {
		if got := h.quantile(c.part); got < c.want || got > c.want+c.want/60 {
			t.Errorf("quantile %g is %v, want %v to 1.6 %% more", c.part, got, c.want)
		}
	}
	if h.longest != 100*time.Millisecond {
		t.Errorf("got longest %v, want 100ms", h.longest)
	}
	if n := h.over(50 * time.Millisecond); n < 49_000 || n > 50_000 {
		t.Errorf("got %d over 50ms, want 49000 to 50000", n)
	}
}

func TestBuckets(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 63, 64, 127, 128, 129, 1000, 1e6, 1e9, 1<<62 + 12345, 1<<63 - 1} {
		b := bucketOf(d)
		if up := upperBound(b); up < d || bucketOf(up) != b || up < 1<<63-1 && bucketOf(up+1) != b+1 {
			t.Errorf("%d is counted in bucket %d, which ends at %d", d, b, up)
		}
	}
}

func TestQuantile(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median %g", got)
	}
	if got := median([]float64{4, 1}); got != 2.5 {
		t.Errorf("median of two %g", got)
	}
	if got := median(nil); got != 0 {
		t.Errorf("median of none %g", got)
	}
}

func TestRandomChainIsOneCycle(t *testing.T) {
	chain := randomChain(1000)
	at, steps := uint64(0), 0
	for {
		at = chain[at]
		if steps++; at == 0 {
			break
		}
	}
	if steps != len(chain) {
		t.Errorf("got a cycle of %d steps, want %d", steps, len(chain))
	}
}

func TestTable(t *testing.T) {
	x := &table{title: "Title", columns: []string{"name", "ns"}}
	x.add("a", "7")
	x.add("±longer", "1234")
	x.note("Note %d.", 1)
	var text, markdown bytes.Buffer
	x.print(&text, false)
	x.print(&markdown, true)
	if want := "\nTitle\n\nname       ns\n-------  ----\na           7\n±longer  1234\n\nNote 1.\n"; text.String() != want {
		t.Errorf("text:\n%s\nwant:\n%s", text.String(), want)
	}
	want := "\n### Title\n\n| name    |   ns |\n| ------- | ---: |\n| a       |    7 |\n| ±longer | 1234 |\n\nNote 1.\n"
	if markdown.String() != want {
		t.Errorf("markdown:\n%s\nwant:\n%s", markdown.String(), want)
	}
}

func TestCount(t *testing.T) {
	var got []string
	for _, n := range []int{1, 999, 20_000, 1_000_000, 10_000_000, 1_048_576} {
		got = append(got, count(n))
	}
	if want := []string{"1", "999", "20k", "1M", "10M", "1048576"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
