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

// Memory is bounded by keys, not by requests: ten times the requests of the same keys, through a pipe, take about the same.
func TestMemoryIsBoundedByKeys(t *testing.T) {
	few, fewBytes := peakMemory(t, *piped/10)
	many, manyBytes := peakMemory(t, *piped)
	t.Logf("most memory: %d kB for %d bytes of log, %d kB for %d", few, fewBytes, many, manyBytes)
	if many > few*3/2 {
		t.Errorf("ten times the requests took %d kB instead of %d kB", many, few)
	}
}

// peakMemory pipes a thousand requests a second of 20,000 keys into a replay. It returns the most memory that this had, in kB, and how
// many bytes went through the pipe.
func peakMemory(t *testing.T, requests int) (memory, bytes int64) {
	t.Helper()
	generate := exec.Command(program, "generate", "steady", "--keys", "20000", "--requests", strconv.Itoa(requests),
		"--span", strconv.Itoa(requests/1000)+"s")
	replay := exec.Command(program, "replay", "--limit", "5/1m", "--format", "csv", "-")
	out, in := io.Pipe()
	count := &counted{to: in}
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

// counted counts what is written through it.
type counted struct {
	to    io.Writer
	bytes int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return c.to.Write(p)
}
