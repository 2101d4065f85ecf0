package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const docs = "../../docs"

// buildProgram builds slidegate from this tree.
func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "slidegate")
	command := exec.Command("go", "build", "-o", program, "./cmd/slidegate")
	command.Dir = "../.."
	command.Env = append(os.Environ(), "GOWORK=") // the program is in the workspace, and this module is not
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return program
}

// TestTraffic replays the traffic of docs/choosing.md, and compares the result with the pictures and with what the pages say. Since it
// builds the program, it also checks what docs/nats.md says about its size.
func TestTraffic(t *testing.T) {
	program := buildProgram(t)
	for _, traffic := range traffics {
		t.Run(traffic.picture, func(t *testing.T) {
			committed, err := os.ReadFile(filepath.Join(docs, traffic.picture))
			if err != nil {
				t.Fatal(err)
			}
			drawn, err := drawTraffic(program, docs, traffic)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(drawn, committed) {
				t.Errorf("docs/%s is not what this program draws; run make draw", traffic.picture)
			}
		})
	}
	t.Run("what the pages say about bursts", func(t *testing.T) { checkBursts(t, program) })
	t.Run("what the pages say about the busy client", func(t *testing.T) { checkBusy(t, program) })
	t.Run("size", func(t *testing.T) {
		built, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		got := float(t, readPage(t, filepath.Join(docs, "nats.md")).find(t, "built by `go build` \\| \\d+ MB \\| (\\d+) MB")[0])
		if megabytes := float64(built.Size()) / 1e6; math.Abs(got-megabytes) > megabytes/10 {
			t.Errorf("docs/nats.md: got %g MB, want about %.0f MB", got, megabytes)
		}
	})
}

func checkBursts(t *testing.T, program string) {
	most := map[string]int{}
	var fixed []decision
	for _, limit := range limits {
		decisions := mustReplay(t, program, traffics[0], limit.text)
		_, most[limit.text] = inWindow(decisions)
		if limit.text == "20/1m fixed-window" {
			fixed = decisions
		}
	}
	log, whole, window := most["20/1m"], most["20/1m segments=60 overlap=whole"], most["20/1m segments=1"]
	edge, bucket := most["20/1m fixed-window"], most["20/1m token-bucket"]
	if log != quota || whole != quota {
		t.Errorf("the log admits %d in a window, and overlap whole %d; want %d", log, whole, quota)
	}
	sizes := burstSizes(fixed)
	if slices.Min(sizes) != slices.Max(sizes) {
		t.Errorf("the bursts have %v requests, want as many in each", sizes)
	}
	choosing, readme := readPage(t, filepath.Join(docs, "choosing.md")), readPage(t, "../../README.md")
	choosing.says(t, `sends (\d+) requests at once, (\w+) times`, sizes[0], len(sizes))
	choosing.says(t, `never admits more than (\d+) within 60 seconds; the fixed window admits (\d+), the token bucket (\d+), the weighted counter (\d+)\]`,
		log, edge, bucket, window)
	choosing.says(t, "\\*\\*The default\\*\\* never admits more than (\\d+) in any 60 seconds", log)
	choosing.says(t, "\\*\\*`segments=1`\\*\\* [^*]* (\\d+) in 60 seconds", window)
	choosing.says(t, "\\*\\*`fixed-window`\\*\\* [^*]* (\\d+) within (\\d+) seconds", edge, seconds(shortest(fixed, edge)))
	choosing.says(t, "\\*\\*`token-bucket`\\*\\* [^*]*: (\\d+)\\.", bucket)
	readme.says(t, `(\w+) bursts of (\d+) requests, under (\w+) limits of (\d+) per minute`, len(sizes), sizes[0], len(limits), quota)
	readme.says(t, `never admits more than (\d+) within 60 seconds, a fixed window admits (\d+)\]`, log, edge)
}

func checkBusy(t *testing.T, program string) {
	page := readPage(t, filepath.Join(docs, "choosing.md"))
	perMinute := 0
	for _, limit := range []string{"20/1m", "20/1m fixed-window", "20/1m segments=60 overlap=whole"} {
		decisions := mustReplay(t, program, traffics[1], limit)
		admitted := run(decisions, true)
		refused := run(decisions[admitted:], false)
		wait := seconds(decisions[admitted+refused].T - decisions[admitted].T)
		page.says(t, `admit (\d+) in a row and then refuse for about (\d+) seconds`, admitted, wait/5*5)
		page.says(t, `admit (\d+) requests in a row, refuse for about (\d+) seconds`, admitted, wait/5*5)
		perMinute = windowMilli / int(decisions[1].T-decisions[0].T)
	}
	page.says(t, `sends a request every (\w+) seconds, which is (\d+) times per minute`, 60/perMinute, perMinute)
	for _, limit := range []string{"20/1m segments=1", "20/1m token-bucket"} {
		decisions := mustReplay(t, program, traffics[1], limit)
		last := decisions[len(decisions)-perMinute:]
		admitted, inRow := 0, 0
		for i, d := range last {
			if d.Allowed {
				admitted++
			}
			inRow = max(inRow, run(last[i:], false))
		}
		if inRow != 1 {
			t.Errorf("%s: %d refusals in a row in the last minute, want 1: refusals are spread evenly", limit, inRow)
		}
		ofThree := (3*admitted + perMinute/2) / perMinute
		page.says(t, `token bucket admit (\w+) of (\w+)\]`, ofThree, 3)
		page.says(t, `soon admits (\w+) of (\w+), evenly`, ofThree, 3)
	}
}

func mustReplay(t *testing.T, program string, traffic traffic, limit string) []decision {
	t.Helper()
	decisions, err := replay(program, filepath.Join(docs, traffic.log), limit)
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

// burstSizes returns how many requests there are in each burst. A burst ends with a second without a request.
func burstSizes(decisions []decision) (sizes []int) {
	last := int64(-1 << 62)
	for _, d := range decisions {
		if d.T-last >= 1_000 {
			sizes = append(sizes, 0)
		}
		sizes[len(sizes)-1]++
		last = d.T
	}
	return sizes
}

// shortest returns the length of the shortest interval in which so many requests were admitted, in milliseconds.
func shortest(decisions []decision, admitted int) int64 {
	var times []int64
	for _, d := range decisions {
		if d.Allowed {
			times = append(times, d.T)
		}
	}
	length := int64(1 << 62)
	for i := admitted - 1; i < len(times); i++ {
		length = min(length, times[i]-times[i-admitted+1])
	}
	return length
}

// seconds rounds up.
func seconds(milli int64) int { return int((milli + 999) / 1000) }

// run returns how many decisions at the beginning are alike.
func run(decisions []decision, allowed bool) int {
	n := slices.IndexFunc(decisions, func(d decision) bool { return d.Allowed != allowed })
	if n < 0 {
		return len(decisions)
	}
	return n
}

// page is the text of a page, in one line.
type page struct{ name, text string }

func readPage(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return page{filepath.Base(path), strings.Join(strings.Fields(string(text)), " ")}
}

// words are numbers as pages write them.
var words = []string{"zero", "one", "two", "three", "four", "five", "six"}

// says checks that the groups of a pattern, in a page, are these numbers.
func (p page) says(t *testing.T, pattern string, want ...int) {
	t.Helper()
	var got []string
	for _, word := range p.find(t, pattern) {
		if n := slices.Index(words, word); n >= 0 {
			word = fmt.Sprint(n)
		}
		got = append(got, word)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %s: got %v, want %v", p.name, pattern, got, want)
	}
}
