//go:build unix

package main

import (
	"flag"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
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
	generate := exec.Command(program, "generate", "steady", "--keys", "20000", "--requests", strconv.Itoa(requests),
		"--span", strconv.Itoa(requests/1000)+"s")
	replay := exec.Command(program, "replay", "--limit", "5/1m", "--format", "csv", "-")
	out, in := io.Pipe()
	count := &countingReader{to: in}
	generate.Stdout, replay.Stdin = count, out
	if err := generate.Start(); err != nil {
		t.Fatal(err)
	}
	if err := replay.Start(); err != nil {
		t.Fatal(err)
	}
	if err := generate.Wait(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := replay.Wait(); err != nil {
		t.Fatal(err)
	}
	return replay.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, count.bytes
}

// countingReader counts the bytes written through it.
type countingReader struct {
	to    io.Writer
	bytes int64
}

func (c *countingReader) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return c.to.Write(p)
}
