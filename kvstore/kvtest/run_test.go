package kvtest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore/kvtest"
)

func TestTable(t *testing.T) {
	kvtest.Run(t, &kvtest.Table{})
}

// faulty is a Table that keeps its values for another time than it should.
type faulty struct {
	*kvtest.Table
	keep func(time.Duration) time.Duration
}

func (f faulty) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	return f.Table.Swap(ctx, name, value, revision, f.keep(keep))
}

// faults are ways to keep a value for too short a time, and what Run says about each.
var faults = map[string]struct {
	keep func(time.Duration) time.Duration
	says string
}{
	"half the time":      {func(keep time.Duration) time.Duration { return keep / 2 }, "was to be kept for 2.5s was gone after"},
	"whole seconds":      {func(keep time.Duration) time.Duration { return keep.Truncate(time.Second) }, "was to be kept for 2.5s was gone after"},
	"seconds in 31 bits": {func(keep time.Duration) time.Duration { return time.Duration(int32(keep/time.Second)+1) * time.Second }, "want 8 bytes"},
}

const faultVariable = "KVTEST_FAULT"

// TestFaulty fails if the variable names a fault. TestFindsFaults runs it.
func TestFaulty(t *testing.T) {
	name, ok := os.LookupEnv(faultVariable)
	if !ok {
		return
	}
	kvtest.Run(t, faulty{new(kvtest.Table), faults[name].keep})
}

// Engines that forget early do not pass.
func TestFindsFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(os.Args[0], "-test.run=^TestFaulty$/^Forgets$")
			command.Env = append(os.Environ(), faultVariable+"="+name)
			output, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(output), fault.says) {
				t.Errorf("%v, without %q:\n%s", err, fault.says, output)
			}
		})
	}
}
