package leakcheck

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// planted makes the test binary leak, in the process that TestMainFails starts.
const planted = "LEAKCHECK_PLANTED"

func TestMain(m *testing.M) { Main(m) }

func forever(begun, stop chan struct{}) {
	close(begun)
	<-stop
}

func TestPlant(t *testing.T) {
	if os.Getenv(planted) != "" {
		grace = 10 * time.Millisecond
		begun := make(chan struct{})
		go forever(begun, make(chan struct{}))
		<-begun
	}
}

func TestNothingLeft(t *testing.T) {
	if left := Left(0); len(left) > 0 {
		t.Errorf("found goroutines although none was started: %s", strings.Join(left, "\n\n"))
	}
}

func TestPlantedLeakIsFound(t *testing.T) {
	begun, stop := make(chan struct{}), make(chan struct{})
	go forever(begun, stop)
	<-begun
	left := Left(10 * time.Millisecond)
	if len(left) != 1 || !strings.Contains(left[0], "leakcheck.forever(") {
		t.Errorf("found %q, want the one goroutine in forever", left)
	}
	var text strings.Builder
	if code := report(&text, left); code != 1 || !strings.Contains(text.String(), "leakcheck.forever(") {
		t.Errorf("reported with code %d: %s", code, text.String())
	}
	close(stop)
	if left := Left(grace); len(left) > 0 {
		t.Errorf("found %q after it ended", left)
	}
}

// Left waits for a goroutine that ends soon.
func TestWaitsForTheEnd(t *testing.T) {
	begun, stop := make(chan struct{}), make(chan struct{})
	go forever(begun, stop)
	<-begun
	time.AfterFunc(5*time.Millisecond, func() { close(stop) })
	if left := Left(grace); len(left) > 0 {
		t.Errorf("did not wait for %q", left)
	}
}

// A test binary that leaks fails, and prints the stack.
func TestMainFails(t *testing.T) {
	command := exec.Command(os.Args[0], "-test.run=^TestPlant$")
	command.Env = append(os.Environ(), planted+"=1")
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "leakcheck: 1 goroutines are still running") || !strings.Contains(string(out), "leakcheck.forever(") {
		t.Errorf("got %v\n%s\nwant a failure that names leakcheck.forever", err, out)
	}
}
