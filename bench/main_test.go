package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// TestMain runs the test binary as a server if the scenarios wire and service start it as one.
func TestMain(m *testing.M) {
	if kind := os.Getenv(wireServerEnv); kind != "" {
		os.Exit(serveWire(kind, os.Stdin, os.Stdout))
	}
	os.Exit(runTests(m))
}

// runTests runs all tests with one program of Slidegate, which is slow to build.
func runTests(m *testing.M) int {
	folder, err := os.MkdirTemp("", "slidegate-bench-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path, err := (&run{folder: folder, progress: io.Discard}).buildProgram()
	if err != nil {
		panic(err)
	}
	os.Setenv(programEnv, path)
	os.Unsetenv(redisURLEnv) // tests start their own servers
	return m.Run()
}

// need skips a test where a program is missing, unless TEST_REQUIRE names it. The package of Debian and Ubuntu has the
// program's name.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	testkit.Missing(t, program, program+" is missing; install the package "+program)
}

// programOf names the program that a scenario requires.
var programOf = map[string]string{"wire": "wrk", "redis": "redis-server", "redis-ways": "redis-server", "lease": "redis-server", "lease-waste": "redis-server", "resp": "redis-server", "envoy": "redis-server", "service": "wrk", "service-leases": "wrk"}

// ownRow matches a row of Slidegate, or of the floods, which have no other libraries.
var ownRow = regexp.MustCompile(`(?m)^(\| )?(slidegate[ ,]|3/1d )`)

// Every scenario must complete and pass its own checks, at sizes that take seconds.
func TestScenarios(t *testing.T) {
	for _, scenario := range allScenarios {
		for _, format := range []string{"text", "markdown"} {
			if format == "markdown" && scenario != "hot" {
				continue
			}
			t.Run(scenario+" "+format, func(t *testing.T) {
				if program := programOf[scenario]; program != "" {
					need(t, program)
				}
				if scenario == "pg" || scenario == "pg-ways" || scenario == "lease" {
					needPG(t)
				}
				var out, progress bytes.Buffer
				args := []string{"-quick", "-rounds", "1", "-keys", "2000", "-callers", "16", "-scenario", scenario, "-format", format}
				if status := Main(args, &out, &progress); status != 0 {
					t.Fatalf("got exit status %d, want 0\n%s\n%s", status, progress.String(), out.String())
				}
				first, _, _ := strings.Cut(out.String(), "\n")
				if !strings.Contains(first, "ratios within a table are what counts") {
					t.Errorf("got the first line %q, want the description of the machine", first)
				}
				if !ownRow.MatchString(out.String()) {
					t.Errorf("no row for slidegate in\n%s", out.String())
				}
			})
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-nonsense", "not defined"},
		{"-rounds 0", "-rounds"},
		{"-rounds many", "-rounds"},
		{"-keys 5", "-keys"},
		{"-procs 0", "-procs"},
		{"-procs one", "-procs"},
		{"-procs ,", "-procs"},
		{"-procs 4096", "-procs"},
		{"-callers 0", "-callers"},
		{"-callers 1,many", "-callers"},
		{"-callers ,", "-callers"},
		{"-callers 4097", "-callers"},
		{"-conns 0", "-conns"},
		{"-conns 151", "-conns"},
		{"-scenario cold", `"cold"`},
		{"-scenario ,", "-scenario"},
		{"-only leaky", `"leaky"`},
		{"-format html", `"html"`},
		{"-quick -big", "exclude"},
		{"extra", `"extra"`},
	} {
		var out, progress bytes.Buffer
		if status := Main(strings.Fields(c.args), &out, &progress); status != 2 {
			t.Errorf("%s: exit status %d, want 2", c.args, status)
		}
		if !strings.Contains(progress.String(), c.want) {
			t.Errorf("%s: got %q, want it to contain %q", c.args, progress.String(), c.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: got output %q, want none", c.args, out.String())
		}
	}
}

func TestQuickKeepsExplicitFlags(t *testing.T) {
	c, err := parse([]string{"-quick", "-rounds", "7"}, &bytes.Buffer{})
	if err != nil || c.rounds != 7 || c.keys != 20_000 {
		t.Errorf("got rounds %d, keys %d, error %v, want 7 and 20000", c.rounds, c.keys, err)
	}
}

func TestOnlySelectsLibraries(t *testing.T) {
	c, err := parse([]string{"-only", "slidegate, go-limiter"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.libraries {
		if l.family != "slidegate" && l.family != "go-limiter" {
			t.Errorf("%s was not selected", l.name)
		}
	}
	if len(c.libraries) != len(slidegateRows())+1 {
		t.Errorf("got %d rows, want %d", len(c.libraries), len(slidegateRows())+1)
	}
}

// A limiter that does not decide as the load requires must fail the run, since its time would be misleading.
func TestWrongDecisionsFailTheRun(t *testing.T) {
	open := func(spec) (limiter, error) { return noLimiter{}, nil }
	r := &run{config: config{quick: true, rounds: 1, procs: []int{1}}, progress: &bytes.Buffer{}}
	r.libraries = []library{{name: "admits all", family: "other", open: open}}
	if _, err := r.hotTables(); err != nil {
		t.Fatal(err)
	}
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "hot key, refused") {
		t.Errorf("got failures %q, want one about the hot key", r.failures)
	}
}
