package memstore_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// TestFiguresOnPages compares what the pages say about the memory of keys with stores that are filled with keys. It prints what it
// measures with -v.
func TestFiguresOnPages(t *testing.T) {
	if testing.Short() {
		t.Skip("it stores millions of keys")
	}
	const million = 1_000_000
	parts, partsMean := bytesPerKey(t, "600/1m", 1, million)
	log, _ := bytesPerKey(t, "60/1m", 1, million)
	used, _ := bytesPerKey(t, "60/1m", 20, million)
	window, windowMean := bytesPerKey(t, "600/1m segments=1", 1, million)
	windows, capped := capacity(t, "600/1m segments=1"), capacity(t, "600/1m")
	leastForgotten, mostForgotten := bytesPerForgottenKey(t)
	hold := bytesPerCall(t, "600/1m hold=10m", func(l *slidegate.Limiter, key string, n int) error {
		_, _, err := l.Reserve(t.Context(), key, 3)
		return err
	})
	id := bytesPerCall(t, "600/1m", func(l *slidegate.Limiter, key string, n int) error {
		_, err := l.Once(fmt.Sprintf("%s, call %d", key, n)).Allow(t.Context(), key)
		return err
	})
	first := fillable(t, "600/1m", 1<<30)
	first.add(t, 1, 1)
	firstKB := float64(first.Stats().Bytes) / 1024
	t.Logf("the first key of a limit takes %.1f KB", firstKB)
	for _, c := range []struct {
		page, pattern string
		want          []float64
		low, high     float64 // bounds of the figure on the page, relative to the measured one
	}{
		{"benchmarks.md", `\*\*(\d+) bytes per key\*\* at a million keys, (\d+) `, []float64{parts, window}, 0.95, 1.05},
		{"stores.md", "`600/1m`, 1 unit \\| (\\d+) ", []float64{parts}, 0.95, 1.05},
		{"stores.md", "`60/1m`, 1 unit \\| (\\d+) ", []float64{log}, 0.95, 1.05},
		{"stores.md", "`60/1m`, 20 units \\| (\\d+) ", []float64{used}, 0.95, 1.05},
		{"stores.md", "`600/1m segments=1` \\| (\\d+) ", []float64{window}, 0.95, 1.05},
		{"stores.md", `each hold \| (\d+) `, []float64{hold}, 0.9, 1.1},
		{"stores.md", `each id of a call \| (\d+) `, []float64{id}, 0.9, 1.1},
		{"stores.md", `on average over all sizes \| (\d+) bytes \| (\d+) bytes`, []float64{partsMean, windowMean}, 0.9, 1.1},
		{"stores.md", `when the bound is reached .* \| (\d+) bytes \| (\d+) bytes`, []float64{defaultBytes / capped, defaultBytes / windows}, 0.9, 1.1},
		{"stores.md", `256 MiB holds \| ([\d.]+) million keys \| ([\d.]+) million keys`, []float64{capped / million, windows / million}, 0.9, 1.1},
		{"choosing.md", `(a) quarter of the memory`, []float64{4 * windowMean / partsMean}, 0.8, 1.25},
		{"getting-started.md", `starts with (\d+) KB per limit`, []float64{firstKB}, 0.95, 1.05},
		{"guarantees.md", `in a separate table of (\d+) to (\d+) bytes per key`, []float64{leastForgotten, mostForgotten}, 0.85, 1.15},
		{"runbook.md", `a key takes \[some (\d+) bytes\]`, []float64{defaultBytes / capped}, 0.9, 1.1},
		{"before-you-expose-it.md", `256 MiB, enough for \[([\d.]+) million keys\]`, []float64{capped / million}, 0.9, 1.1},
	} {
		for i, got := range testkit.Figures(t, "../docs", c.page, c.pattern) {
			if want := c.want[i]; got < c.low*want || got > c.high*want {
				t.Errorf("docs/%s: %s: got %g, want about %.1f", c.page, c.pattern, got, want)
			}
		}
	}
}

const defaultBytes = 256 << 20

// filled is a store that is filled with keys of 16 bytes, each of which uses the same number of units.
type filled struct {
	*memstore.Store
	limiter *slidegate.Limiter
	keys    int
}

func fillable(t *testing.T, limit string, maxBytes int64) *filled {
	st := open(t, memstore.Options{MaxBytes: maxBytes, Now: func() rule.Micros { return 1_800_000_000_000_000 }})
	return &filled{st, newLimiter(t, st, slidegate.MustParseLimit(limit)), 0}
}

func (f *filled) add(t *testing.T, keys int, units int64) {
	key := []byte("user-")
	for range keys {
		if _, err := f.limiter.AllowN(t.Context(), string(strconv.AppendInt(key, 10_000_000_000+int64(f.keys), 10)), units); err != nil {
			t.Fatal(err)
		}
		f.keys++
	}
}

// bytesPerKey returns how much a key takes in a store of so many keys, and the mean while the store doubled to that size. The
// table grows by parts, so a key takes more right after a part has grown and less before.
func bytesPerKey(t *testing.T, limit string, units int64, keys int) (full, mean float64) {
	const steps = 16
	f := fillable(t, limit, 1<<30)
	f.add(t, keys/2, units)
	for range steps {
		f.add(t, keys/2/steps, units)
		full = float64(f.Stats().Bytes) / float64(f.keys)
		mean += full / steps
	}
	t.Logf("%s, %d units: %.1f bytes per key at %d keys, %.1f on average", limit, units, full, f.keys, mean)
	return full, mean
}

// capacity returns how many keys a store of the default size holds until it has forgotten one in 1,500. It fills some stores of a
// sixteenth of that size, because keys are spread over a store at random. The threshold is a choice: in single stores, one in 5,000 gave
// 4.8 million weighted windows and 1.2 million logs, and one in 1,000 gave 6.1 and 1.6 million.
func capacity(t *testing.T, limit string) float64 {
	const part, stores = 16, 5
	keys := 0
	for range stores {
		f := fillable(t, limit, defaultBytes/part)
		for f.keys == 0 || f.Stats().Evictions*1500 < int64(f.keys) {
			f.add(t, 1000, 1)
		}
		keys += f.keys
	}
	keys = keys * part / stores
	t.Logf("%s: 256 MiB hold %d keys, %d bytes for each", limit, keys, defaultBytes/keys)
	return float64(keys)
}

// bytesPerCall returns how much a store remembers of a call, after 100 of them for each of 1,000 keys.
func bytesPerCall(t *testing.T, limit string, call func(l *slidegate.Limiter, key string, n int) error) float64 {
	const keys, calls = 1000, 100
	f := fillable(t, limit, 1<<30)
	f.add(t, keys, 1)
	before := f.Stats().Bytes
	for key := range keys {
		for n := range calls {
			if err := call(f.limiter, strconv.Itoa(10_000_000_000+key), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	each := float64(f.Stats().Bytes-before) / (keys * calls)
	t.Logf("%s: %.1f bytes per call", limit, each)
	return each
}

// bytesPerForgottenKey returns the least and the most that a forgotten key takes while a store of 16 MiB forgets 100,000 to a million
// keys. Their table grows in steps, so the figure depends on when it is read; a single reading would be arbitrary.
func bytesPerForgottenKey(t *testing.T) (least, most float64) {
	const maxBytes = 16 << 20
	f := fillable(t, "60/1m", maxBytes)
	least = maxBytes
	for {
		f.add(t, 10_000, 1)
		stats := f.Stats()
		switch forgotten := stats.Limits[0].Forgotten; {
		case forgotten > 1_000_000:
			t.Logf("a key that was forgotten takes %.1f to %.1f bytes", least, most)
			return least, most
		case forgotten >= 100_000:
			each := float64(stats.Bytes-maxBytes/2) / float64(forgotten)
			least, most = min(least, each), max(most, each)
		}
	}
}
