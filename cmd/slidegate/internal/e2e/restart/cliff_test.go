package restart_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// cliffInstance is a process with a file of its own, in which the default policy has one limit.
type cliffInstance struct {
	*process
	url string
}

func startWithLimit(t *testing.T, limit, store string, args ...string) *cliffInstance {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slidegate.yaml")
	testkit.NoError(t, os.WriteFile(file, []byte(store+"policies: {default: {limits: ["+limit+"]}}\n"), 0o600))
	p := run(t, exec.Command(slidegate, append([]string{
		"serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off", "--config", file, "--drain-delay", "1ms",
	}, args...)...))
	p.AwaitOutput(t, "curl -i ")
	at := regexp.MustCompile(`  http +(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(p.Output.String())
	if at == nil {
		t.Fatalf("no address: %s", p.Output.String())
	}
	return &cliffInstance{p, at[1]}
}

// take takes units of one key, and checks whether they are admitted.
func (i *cliffInstance) take(t *testing.T, cost int, admitted bool) {
	t.Helper()
	out, err := exec.Command(slidegate, "allow", "tenant", "--cost", fmt.Sprint(cost), "--server", i.url).CombinedOutput()
	if got := err == nil; got != admitted || !strings.Contains(string(out), map[bool]string{true: "allowed", false: "refused"}[admitted]) {
		t.Errorf("%d units: got %s, %v, want admitted %v", cost, out, err, admitted)
	}
}

// No unit is forgotten when two instances have files with quotas on both sides of 100, as during a rollout.
func TestTwoFilesShareTheirCounts(t *testing.T) {
	store := "store: redis://" + redistest.Server(t).Addr() + "\n"
	small, large := startWithLimit(t, "90/1h", store), startWithLimit(t, "600/1h", store)
	small.take(t, 80, true)
	large.take(t, 521, false)
	large.take(t, 500, true)
	small.take(t, 1, false)
	large.take(t, 21, false)
	large.take(t, 20, true)
	large.take(t, 1, false)
}

// Nor when a process that saves its state is restarted with another file.
func TestStateUnderAnotherFile(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for _, step := range []struct {
		limit    string
		refused  int
		admitted int
	}{{"90/1h", 91, 80}, {"600/1h", 521, 500}, {"100/1h", 1, 0}, {"60/1h lease", 1, 0}, {"10000/1h", 9_421, 9_420}, {"101/1h", 1, 0}} {
		i := startWithLimit(t, step.limit, "", "--state", state)
		i.take(t, step.refused, false)
		if step.admitted > 0 {
			i.take(t, step.admitted, true)
		}
		i.terminate(t)
	}
}
