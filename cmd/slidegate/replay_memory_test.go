//go:build unix

package main

import (
	"flag"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/internal/testkit/generate"
)

var piped = flag.Int("piped", 2_000_000, "how many requests TestMemoryIsBoundedByKeys sends through a pipe")

// Memory is bounded by the number of keys, not of requests: ten times the requests of the same keys need about the same memory.
func TestMemoryIsBoundedByKeys(t *testing.T) {
	few, fewBytes := peakMemory(t, *piped/10)
	many, manyBytes := peakMemory(t, *piped)
	t.Logf("peak memory: %d kB for %d bytes of log, %d kB for %d", few, fewBytes, many, manyBytes)
	if many > few*3/2 {
		t.Errorf("ten times the requests: got %d kB, want at most 1.5 times %d kB", many, few)
	}
}

// peakMemory pipes a log with a thousand requests per second of 20,000 keys into a replay. It returns the peak memory of the replay in
// kB, and the number of bytes piped.
func peakMemory(t *testing.T, requests int) (memory, bytes int64) {
	t.Helper()
	replay := exec.Command(program, "replay", "--limit", "5/1m", "--format", "csv", "-")
	in, err := replay.StdinPipe()
	testkit.NoError(t, err)
	testkit.NoError(t, replay.Start())
	log := &counted{to: in}
	span := time.Duration(requests/1000) * time.Second
	testkit.NoError(t, generate.Lines(log, generate.Options{Shape: "steady", Keys: 20_000, Requests: int64(requests), Span: span}))
	testkit.NoError(t, in.Close())
	testkit.NoError(t, replay.Wait())
	return replay.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, log.bytes
}

// counted counts the bytes written through it.
type counted struct {
	to    io.Writer
	bytes int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return c.to.Write(p)
}
