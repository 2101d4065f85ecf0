package program_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// program is the real binary, built once.
var program string

func TestMain(m *testing.M) {
	if os.Getenv(holderOf) != "" { // see TestHolder, which needs no program
		os.Exit(m.Run())
	}
	testkit.MainWithProgram(m, filepath.Join("..", "..", ".."), &program)
}

// command returns a command that runs the program with arguments, without the variables of the environment that configure it.
func command(args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SLIDEGATE_") || strings.HasPrefix(v, "OTEL_")
	})
	return c
}

// call runs a command line and waits for its end.
func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := command(args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// start starts the program, which is stopped when the test ends, and returns what it prints up to the line that contains last.
func start(t *testing.T, last string, args ...string) (welcome string) {
	t.Helper()
	welcome, _ = startKillable(t, last, args...)
	return welcome
}

// startKillable is like start, and also returns a function that kills the program.
func startKillable(t *testing.T, last string, args ...string) (welcome string, kill func()) {
	t.Helper()
	p := testkit.Run(t, command(args...))
	p.AwaitOutput(t, last)
	return p.Output.String(), func() { _ = p.Kill() }
}

// serve starts the service with all listeners on free ports, and returns their addresses by name.
func serve(t *testing.T, args ...string) map[string]string {
	t.Helper()
	free := []string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	welcome := start(t, "curl -i ", append(free, args...)...) // the last line of the welcome
	listeners := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^  (http|grpc|resp|admin) +(?:https?://)?(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(welcome, -1) {
		listeners[found[1]] = found[2]
	}
	if len(listeners) != 4 {
		t.Fatalf("the welcome does not name the addresses of all listeners:\n%s", welcome)
	}
	return listeners
}

// write writes a file into a temporary folder.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
