// Package workers lets a test send requests from several processes. They are the test's own program, started again
// (Start) to run one test of it, TestWorker, which carries out orders (Serve). Orders and answers are JSON, one per
// line.
package workers

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

// jobVariable is the environment variable that makes a process a worker; its value is the job.
const jobVariable = "TEST_WORKER_JOB"

// Serve is the body of a package's TestWorker. In a worker, prepare sets up the job, and returns the function that
// carries out each order. In the test's own process it does nothing.
func Serve(t *testing.T, prepare func(job string) (answer func(order []byte) (any, error), err error)) {
	t.Helper()
	job := os.Getenv(jobVariable)
	if job == "" {
		t.Skip("runs only in other processes")
	}
	answer, err := prepare(job)
	if err != nil {
		t.Fatal(err)
	}
	orders, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for err = out.Encode("ready"); err == nil && orders.Scan(); {
		var a any
		if a, err = answer(orders.Bytes()); err == nil {
			err = out.Encode(a)
		}
	}
	if err == nil {
		err = orders.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long a worker may take to answer or to end, before it is killed.
const patience = 2 * time.Minute

// Worker is another process.
type Worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder

	killed atomic.Bool // by the test
}

// Start starts workers, which end with the test, and waits until they are ready.
func Start(t *testing.T, n int, job string) (all []*Worker) {
	t.Helper()
	for range n {
		all = append(all, start(t, job))
	}
	ReceiveAll[string](t, all)
	return all
}

func start(t *testing.T, job string) *Worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestWorker$")
	cmd.Env = append(os.Environ(), jobVariable+"="+job, "GORACE=atexit_sleep_ms=0") // otherwise it lingers for a second
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &Worker{cmd: cmd, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() {
		defer time.AfterFunc(patience, w.kill).Stop()
		in.Close()                                                   // it ends when it has carried out all orders
		rest, _ := io.ReadAll(io.MultiReader(w.out.Buffered(), out)) // after its answers it prints the test's result
		if err := cmd.Wait(); err != nil && !w.killed.Load() {
			t.Errorf("a worker failed: %v\n%s", err, rest)
		}
	})
	return w
}

// Kill ends a worker immediately, as kill -9 does. A killed worker accepts no orders and returns no answers.
func (w *Worker) Kill() {
	w.killed.Store(true)
	w.kill()
}

// kill ends a worker that may already have ended.
func (w *Worker) kill() { _ = w.cmd.Process.Kill() }

// Signal sends a worker a signal, such as the one that stops it without ending it.
func (w *Worker) Signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Send gives a worker an order.
func (w *Worker) Send(t *testing.T, order any) {
	t.Helper()
	if err := json.NewEncoder(w.in).Encode(order); err != nil {
		t.Fatal(err)
	}
}

// ReceiveAll waits for an answer of each worker.
func ReceiveAll[Answer any](t *testing.T, all []*Worker) []Answer {
	t.Helper()
	answers := make([]Answer, len(all))
	for i, w := range all {
		late := time.AfterFunc(patience, w.kill)
		err := w.out.Decode(&answers[i])
		late.Stop()
		if err != nil {
			t.Fatalf("a worker did not answer: %v", err)
		}
	}
	return answers
}
