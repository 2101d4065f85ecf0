package lease_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

var mutantsFlag = flag.Int("mutants", 0, "for each of the mutants, how many spends are replayed at most until it is caught; 0 tries none")

// mutant is a mistake in a source file: old, which is there once, becomes new.
type mutant struct{ name, file, old, new string }

// mutants are what the plays must catch, each by a spend that the rule refuses.
var mutants = []mutant{
	{
		"a life beyond the end of the part", "part.go",
		"left = min(partEnd(r, at)-at, mostLife)",
		"left = mostLife",
	},
	{
		"an end that is counted from the reply", "trips.go",
		"end: sent + life(",
		"end: heard + life(",
	},
	{
		"an end that is counted from a rounded moment", "part.go",
		"\tleft--\n",
		"",
	},
	{
		"anchor first is leased", "../../rule/lease.go",
		"case l.Anchor == First:",
		"case false:",
	},
	{
		"a log is leased", "../../rule/lease.go",
		"case l.Algorithm == SlidingLog:",
		"case false:",
	},
	{
		"a bucket that keeps no reserve", "../../limit.go",
		"r.Burst -= reserve",
		"r.Burst -= 0 * reserve",
	},
	{
		"a block that is given back twice", "trips.go",
		"	s.enqueue(trip{e: e, turn: b.turn, limit: b.limit, back: true, units: left, at: b.at})\n",
		"	for range 2 {\n		s.enqueue(trip{e: e, turn: b.turn, limit: b.limit, back: true, units: left, at: b.at})\n	}\n",
	},
	{
		"giving back again after an error", "trips.go",
		"	case err != nil: // nobody knows; to send it again might give back twice\n		s.counts.wasted.Add(t.units)\n",
		"	case err != nil:\n		if t.units /= 2; t.units > 0 { // some of it, so that it ends\n			s.enqueue(*t)\n		}\n",
	},
	{
		"a block that is spent under another quota", "holding.go",
		"if now >= b.end || !same(b.limit, limit) {",
		"if now >= b.end {",
	},
	{
		"what is left of a block moves to the next part", "holding.go",
		"case b != nil && now < old.end && samePart(b, old):",
		"case b != nil:",
	},
	{
		"a reset that leaves the block", "apply.go",
		"			s.drop(e)\n",
		"",
	},
}

// TestMutants sees to it that the plays can fail. With -mutants it plays with each mutant in turn; without, it only looks
// whether they can still be made.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay := m.overlay(t)
			if *mutantsFlag == 0 {
				return
			}
			play := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-run", "^TestPlays$", ".", "-plays", strconv.Itoa(*mutantsFlag))
			output, err := play.CombinedOutput()
			for line := range strings.Lines(string(output)) {
				if err != nil && strings.Contains(line, theRuleRefuses) {
					t.Log(strings.TrimSpace(line))
					return
				}
			}
			t.Errorf("it was not caught (%v):\n%s", err, output)
		})
	}
}

// overlay writes the mutated file to a temporary place, and returns what tells the go command to take it.
func (m mutant) overlay(t *testing.T) (file string) {
	path := testkit.Must(filepath.Abs(m.file))(t)
	source := string(testkit.Must(os.ReadFile(path))(t))
	if n := strings.Count(source, m.old); n != 1 {
		t.Fatalf("%s has %d times what the mutant changes, want once:\n%s", m.file, n, m.old)
	}
	dir := t.TempDir()
	mutated := filepath.Join(dir, filepath.Base(path))
	write(t, mutated, []byte(strings.Replace(source, m.old, m.new, 1)))
	file = filepath.Join(dir, "overlay.json")
	write(t, file, testkit.Must(json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}}))(t))
	return file
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
