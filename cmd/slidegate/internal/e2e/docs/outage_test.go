package docs

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// outageOf returns the block that shows what a program over Redis prints if Redis is stopped after the third line and started again
// after the sixth: the next one with decisions of a fallback. It is nil for programs without a failure mode.
func outageOf(p *page, program block) *block {
	if !strings.Contains(program.code, `/layer/stack"`) || !strings.Contains(program.code, ":6379") {
		return nil
	}
	for _, b := range p.blocks {
		if b.line > program.line && b.language != "go" && strings.Contains(b.code, " fallback-") {
			return &b
		}
	}
	return nil
}

// runOutage runs a program while its Redis is stopped and started again, empty. It prints what the page shows: how many lines are
// printed before, during and after the outage may differ, but each part counts down from the whole quota. It also runs the program
// twice at the same time over another Redis: together they are admitted as often as the quota allows.
func runOutage(t *testing.T, p *page, b block) string {
	shown := outageOf(p, b)
	want, wrong := partsOf(shown.code)
	if wrong != "" {
		return fmt.Sprintf("line %d: %s", shown.line, wrong)
	}
	program, variables, wrong := build(t, b.code)
	if wrong != "" {
		return wrong
	}
	return attempt(t, func() string { return outageOnce(t, program, variables, shown, want) })
}

// outageOnce runs a program as runOutage says, once, and returns the problem, or "".
func outageOnce(t *testing.T, program string, variables []string, shown *block, want []string) string {
	t.Helper()
	env := environment(t, variables)
	both := []*running{startIn(t, program, env), startIn(t, program, env)}
	printed, err := interrupted(t, program)
	if err != nil {
		return fmt.Sprintf("the program fails: %v\n%s", err, printed)
	}
	got, wrong := partsOf(printed)
	if wrong == "" && !slices.Equal(got, want) {
		wrong = fmt.Sprintf("the program prints\n%s\nwant decisions by %v, as on line %d,\n%s", printed, want, shown.line, shown.code)
	}
	if wrong != "" {
		return wrong
	}
	return together(t, both, shown.code)
}

func startIn(t *testing.T, program string, env []string) *running {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Dir, cmd.Env = t.TempDir(), env
	return startSample(t, cmd)
}

// interrupted runs a program, stops its Redis after three lines, starts it again after three more, and returns what the program
// prints. The program is suspended in the meantime, so that it does not matter how long that takes.
func interrupted(t *testing.T, program string) (printed string, err error) {
	t.Helper()
	redis := startRedis(t)
	s := startIn(t, program, []string{redisVariable + "=" + redis.Addr()})
	s.awaitLines(t, 3)
	s.suspend(t)
	lines := strings.Count(s.output.String(), "\n")
	redis.Kill()
	s.resume(t)
	s.awaitLines(t, lines+3)
	s.suspend(t)
	redis.Restart()
	s.resume(t)
	testkit.Eventually(t, "the program ends", s.hasEnded)
	return s.output.String(), s.err
}

// awaitLines waits until the program has printed some lines, or has ended.
func (s *running) awaitLines(t *testing.T, lines int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the program prints %d lines", lines), func() bool {
		return strings.Count(s.output.String(), "\n") >= lines || s.hasEnded()
	})
}

var decisionLine = regexp.MustCompile(`^(true|false) (\d+) (\S+)$`)

// partsOf returns what made the decisions of an output, in order: "none" is the store, other flags are fallbacks. It returns a
// problem unless each of these parts counts down from the same quota, one by one, and refuses after that.
func partsOf(output string) (parts []string, wrong string) {
	quota, remaining := -1, 0
	for line := range strings.Lines(strings.TrimSpace(output)) {
		line = strings.TrimSpace(line)
		match := decisionLine.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Sprintf("%q is not a decision:\n%s", line, output)
		}
		if quota < 0 {
			_, _ = fmt.Sscan(match[2], &quota)
			quota++
		}
		if len(parts) == 0 || parts[len(parts)-1] != match[3] {
			parts = append(parts, match[3])
			remaining = quota
		}
		want := fmt.Sprintf("%v %d %s", remaining > 0, max(remaining-1, 0), match[3])
		if line != want {
			return nil, fmt.Sprintf("the line %q must be %q:\n%s", line, want, output)
		}
		remaining--
	}
	return parts, ""
}

// together waits until programs end that run at the same time, and returns the problem if they are not admitted as often as the
// quota of the shown output allows.
func together(t *testing.T, programs []*running, shown string) string {
	t.Helper()
	var printed string
	for _, s := range programs {
		testkit.Eventually(t, "the program ends", s.hasEnded)
		printed += s.output.String()
		if s.err != nil {
			return fmt.Sprintf("the program fails when it runs twice: %v\n%s", s.err, s.output)
		}
	}
	var quota int
	_, _ = fmt.Sscan(decisionLine.FindStringSubmatch(strings.TrimSpace(strings.SplitN(shown, "\n", 2)[0]))[2], &quota)
	if admitted := strings.Count(printed, "true "); admitted != quota+1 {
		return fmt.Sprintf("two of the program are admitted %d times, want %d:\n%s", admitted, quota+1, printed)
	}
	return ""
}

// suspend stops the process without ending it.
func (s *running) suspend(t *testing.T) { s.signal(t, syscall.SIGSTOP) }

// resume continues a process that was suspended.
func (s *running) resume(t *testing.T) { s.signal(t, syscall.SIGCONT) }

func (s *running) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(signal); err != nil && !s.hasEnded() {
		t.Fatal(err)
	}
}

func TestPartsOf(t *testing.T) {
	for _, c := range []struct {
		output string
		want   []string // nil if it is wrong
	}{
		{"true 1 none\ntrue 0 none\nfalse 0 none\n", []string{"none"}},
		{"true 1 none\ntrue 1 fallback-local\ntrue 0 fallback-local\ntrue 1 none\n", []string{"none", "fallback-local", "none"}},
		{"true 1 none\ntrue 0 fallback-local\n", nil}, // it does not start from the whole quota
		{"true 1 none\ntrue 1 none\n", nil},
		{"true 1 none\ntrue 0 none\ntrue 0 none\n", nil}, // it is over the quota
		{"error\n", nil},
	} {
		got, wrong := partsOf(c.output)
		if !slices.Equal(got, c.want) || (wrong != "") != (c.want == nil) {
			t.Errorf("partsOf(%q) is %v, %q, want %v", c.output, got, wrong, c.want)
		}
	}
}
