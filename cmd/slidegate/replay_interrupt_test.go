package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Ctrl-C prints the results so far, even while the program waits for input from an idle pipe.
func TestInterrupt(t *testing.T) {
	command := exec.Command(program, "replay", "--limit", "1/1h", "--sort", "0", "-")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	// More than the pipe and the buffers hold, so that some of it has been decided once all of it is written.
	const lines = 200_000
	to := bufio.NewWriter(in)
	for i := range lines {
		fmt.Fprintf(to, `{"t":%d,"key":"k","cost":1}`+"\n", 1_767_600_000_000+i)
	}
	if err := to.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("got exit status 0 after an interrupt, want an error")
	}
	in.Close()
	if status := command.ProcessState.ExitCode(); status != exitInterrupted {
		t.Errorf("got status %d, want %d:\n%s", status, exitInterrupted, errs.String())
	}
	for _, want := range []string{"not read to its end", "What 1/1h would have done", "admitted"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in the report:\n%s", want, out.String())
		}
	}
}

// Read returns when the context ends, although the pipe stays open.
func TestInterruptibleEndsWithContext(t *testing.T) {
	held, hold := io.Pipe()
	defer hold.Close()
	r := interruptible(canceled(t), held)
	if _, err := r.Read(make([]byte, 1)); err == nil {
		t.Error("got no error from an empty pipe after the context ended")
	}
}
