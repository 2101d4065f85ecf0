package worstcase

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/slidegate/slidegate/rule"
)

// TestChoosingTable compares the short table in docs/choosing.md with the results of the search.
func TestChoosingTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## The worst case\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]*Row{}
	for _, row := range found() {
		rows[row.Name] = &row
	}
	written := regexp.MustCompile(`(?m)^\| (.*`+"`"+`.*) \| (\d+) \|$`).FindAllStringSubmatch(section, -1)
	if len(written) != len(shortNames) {
		t.Errorf("docs/choosing.md: the table of worst cases has %d rows, want %d", len(written), len(shortNames))
	}
	for _, cells := range written {
		for _, name := range shortNames[cells[1]] {
			if want := fmt.Sprint(rows[name].Most[0].Most); cells[2] != want {
				t.Errorf("docs/choosing.md: %s: got %s in any window, want %s", cells[1], cells[2], want)
			}
		}
		if len(shortNames[cells[1]]) == 0 {
			t.Errorf("docs/choosing.md: no limit of the search is %s", cells[1])
		}
	}
}

// shortNames maps rows in docs/choosing.md to those of the search.
var shortNames = map[string][]string{
	"no algorithm named; `sliding-log`; `overlap=whole`": {"no algorithm named", "`sliding-log`", "`sliding-window`, `whole`, 1 segment", "`sliding-window`, `whole`, 60 segments"},
	"`token-bucket`, burst 10":                           {"`token-bucket`, burst = quota/10"},
	"`segments=1`; `token-bucket`, burst 100":            {"`sliding-window`, `up`, 1 segment", "`token-bucket`, burst = quota"},
	"`fixed-window`":                                     {"`fixed-window`"},
}

// TestStateSizes checks the sizes of states in the table: those of the fields of rule.State that an algorithm uses, and what a log
// allocates.
func TestStateSizes(t *testing.T) {
	var s rule.State
	word := unsafe.Sizeof(s.Start)
	bucket := word + unsafe.Sizeof(s.Until) + unsafe.Sizeof(s.Missing) + unsafe.Sizeof(s.Rest)
	for _, c := range []struct {
		limit rule.Limit
		want  string
	}{
		{rule.Limit{Algorithm: rule.SlidingLog}, fmt.Sprintf("%d bytes, and up to %d per unit", unsafe.Sizeof(s.Log), logUnit(t))},
		{rule.Limit{Algorithm: rule.TokenBucket}, fmt.Sprintf("%d bytes", bucket)},
		{rule.Limit{Algorithm: rule.InFlight}, fmt.Sprintf("%d bytes per slot", unsafe.Sizeof(rule.Slot{}))},
		{rule.Limit{Algorithm: rule.FixedWindow}, fmt.Sprintf("%d bytes", 2*word)},
		{rule.Limit{Algorithm: rule.SlidingWindow}, fmt.Sprintf("%d bytes", 3*word)},
		{rule.Limit{Algorithm: rule.SlidingWindow, Segments: 60}, fmt.Sprintf("%d bytes", 62*word)},
	} {
		c.limit.Quota = 100
		if got := memory(normalize(c.limit)); got != c.want {
			t.Errorf("%s, %d segments: got %s, want %s", c.limit.Algorithm, c.limit.Segments, got, c.want)
		}
	}
}

// logUnit measures the most bytes that a log allocates per unit, whatever its window and the number of its units.
func logUnit(t *testing.T) int64 {
	const logs = 10_000 // so many that what else the program allocates does not matter
	most := int64(0)
	for _, window := range []rule.Micros{60_000_000, 6_000_000_000} { // units take 4 bytes, and 6
		l, err := rule.Limit{Algorithm: rule.SlidingLog, Quota: 100, Window: window}.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		for _, units := range []int64{2, 3, 4, 8, 11, 16, 33} {
			states := make([]rule.State, logs)
			before := heap()
			for i := range states {
				for u := range units {
					l.TakeOne(&states[i], epoch+rule.Micros(u), 1)
				}
			}
			each := (heap() - before + logs/2) / logs
			runtime.KeepAlive(states)
			most = max(most, each/units)
			t.Logf("a log of %d units in %d s allocates %d bytes", units, window/1e6, each)
		}
	}
	return most
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one only begins to free what finalizers and pools held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
