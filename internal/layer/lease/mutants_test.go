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

var mutantsFlag = flag.Int("mutants", 0, "how many spends to replay at most until each mutant is caught; 0 disables them")

// mutant is a mistake in a source file: old, which occurs once, becomes new.
type mutant struct{ name, file, old, new string }

// mutants are mistakes that the plays must catch, each by a spend that the rule refuses.
var mutants = []mutant{
	{
		"a life beyond the end of the part", "part.go",
		"left = min(partEnd(r, at)-at, maxLife)",
		"left = maxLife",
	},
	{
		"an end counted from the reply", "transfers.go",
		"end: sent + life(",
		"end: received + life(",
	},
	{
		"an end counted from a rounded time", "part.go",
		"\tleft--\n",
		"",
	},
	{
		"anchor first is leased", "../../../rule/lease.go",
		"case l.Anchor == AnchorFirst:",
		"case false:",
	},
	{
		"a log is leased", "../../../rule/lease.go",
		`case why != "":`,
		`case why != "" && l.Algorithm != SlidingLog:`,
	},
	{
		"a leased default that stays a log", "../../../rule/default.go",
		"l.Quota > DefaultLog || l.Lease || cost > DefaultLog",
		"l.Quota > DefaultLog || cost > DefaultLog",
	},
	{
		"a bucket without a reserve", "../../../limit.go",
		"r.Burst -= reserve",
		"r.Burst -= 0 * reserve",
	},
	{
		"a lease that is returned twice", "transfers.go",
		"	s.enqueue(transfer{e: e, turn: l.turn, limit: l.limit, back: true, units: left, at: l.at})\n",
		"	for range 2 {\n		s.enqueue(transfer{e: e, turn: l.turn, limit: l.limit, back: true, units: left, at: l.at})\n	}\n",
	},
	{
		"returning again after an error", "transfers.go",
		"	case err != nil: // unknown; sending it again might return it twice\n		s.counts.wasted.Add(t.units)\n",
		"	case err != nil:\n		if t.units /= 2; t.units > 0 { // some of it, so that it ends\n			s.enqueue(*t)\n		}\n",
	},
	{
		"a lease that is spent under another quota", "holding.go",
		"if now >= l.end || !sameRule(l.limit, limit) {",
		"if now >= l.end {",
	},
	{
		"units left of a lease move to the next part", "holding.go",
		"case l != nil && now < old.end && samePart(l, old):",
		"case l != nil:",
	},
	{
		"a reset that keeps the lease", "apply.go",
		"			s.drop(e)\n",
		"",
	},
}

// TestMutants checks that the plays can fail. With -mutants it plays with each mutant in turn; without it, it only
// checks that they can still be applied.
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
				if err != nil && strings.Contains(line, ruleRefuses) {
					t.Log(strings.TrimSpace(line))
					return
				}
			}
			t.Errorf("not caught (%v):\n%s", err, output)
		})
	}
}

// overlay writes the mutated file to a temporary directory, and returns the overlay file for the go command.
func (m mutant) overlay(t *testing.T) (file string) {
	path := testkit.Must(filepath.Abs(m.file))(t)
	source := string(testkit.Must(os.ReadFile(path))(t))
	if n := strings.Count(source, m.old); n != 1 {
		t.Fatalf("%s contains %d times what the mutant changes, want once:\n%s", m.file, n, m.old)
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
