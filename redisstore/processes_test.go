package redisstore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/history"
	"github.com/slidegate/slidegate/internal/redistest"
)

// Some tests ask from several processes: the test's own program, started again with a job to do.
const jobVariable = "SLIDEGATE_REDISSTORE_JOB"

func TestMain(m *testing.M) {
	job := os.Getenv(jobVariable)
	if job == "" {
		os.Exit(m.Run())
	}
	if err := work(job); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// work does a job of another process: it is told what to do line by line, and answers each line with one.
func work(job string) error {
	kind, addr, _ := strings.Cut(job, " ")
	opts := rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true}
	client, err := rueidis.NewClient(opts)
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := New(client, Options{})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode("ready"); err != nil {
		return err
	}
	for lines.Scan() {
		var answer any
		switch kind {
		case "race":
			answer, err = raceJob(store, lines.Text())
		case "history":
			answer, err = historyJob(client, store, lines.Bytes())
		}
		if err == nil {
			err = out.Encode(answer)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// historyJob records a history.
func historyJob(client rueidis.Client, store *Store, line []byte) ([]history.Event, error) {
	var order history.Order
	if err := json.Unmarshal(line, &order); err != nil {
		return nil, err
	}
	alive := func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() }
	return history.Record(store, alive, order)
}

// worker is another process.
type worker struct {
	in  io.WriteCloser
	out *json.Decoder
}

// startWorkers starts processes that end with the test, and waits until they are connected.
func startWorkers(t *testing.T, n int, job string) (workers []*worker) {
	t.Helper()
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), jobVariable+"="+job, "GORACE=atexit_sleep_ms=0") // else it lingers for a second
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
		t.Cleanup(func() {
			in.Close() // it ends when there is nothing more to do
			if err := cmd.Wait(); err != nil {
				t.Errorf("a worker ended badly: %v", err)
			}
		})
		workers = append(workers, &worker{in, json.NewDecoder(out)})
	}
	for _, w := range workers {
		var ready string
		w.hear(t, &ready)
	}
	return workers
}

// tell gives all workers something to do at once.
func tell(t *testing.T, workers []*worker, line string) {
	t.Helper()
	for _, w := range workers {
		if _, err := io.WriteString(w.in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// hear reads a worker's answer.
func (w *worker) hear(t *testing.T, answer any) {
	t.Helper()
	if err := w.out.Decode(answer); err != nil {
		t.Fatalf("a worker did not answer: %v", err)
	}
}

const (
	raceQuota     = 50
	raceProcesses = 4
	raceEach      = 50 // requests of one process at once
)

var raceLimits = []slidegate.Limit{
	{Name: "window", Quota: raceQuota, Window: time.Hour, Anchor: slidegate.AnchorFirst},
	{Name: "log", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	{Name: "fixed", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
	{Name: "denied", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog, CountDenied: true},
}

// Two hundred requests of four processes come at once, and exactly fifty pass, every time.
func TestProcessesNeverOver(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no")
	workers := startWorkers(t, raceProcesses, "race "+server.Addr())
	for round := range 20 {
		tell(t, workers, fmt.Sprintf("%d round-%d", round%len(raceLimits), round))
		total := 0
		for _, w := range workers {
			var admitted int
			w.hear(t, &admitted)
			total += admitted
		}
		if total != raceQuota {
			t.Errorf("round %d: %d of %d were admitted, of a quota of %d", round, total, raceProcesses*raceEach, raceQuota)
		}
	}
}

// raceJob asks many times at once for one key, and returns how many passed.
func raceJob(store *Store, line string) (admitted int64, err error) {
	var (
		which int
		key   string
		count atomic.Int64
		wait  sync.WaitGroup
		fault atomic.Value
	)
	if _, err := fmt.Sscanf(line, "%d %s", &which, &key); err != nil {
		return 0, err
	}
	limit, err := slidegate.Bind("race", raceLimits[which])
	if err != nil {
		return 0, err
	}
	start := make(chan struct{})
	for range raceEach {
		wait.Go(func() {
			<-start
			a, err := try(context.Background(), store, slidegate.OpTake, slidegate.Charge{Limit: limit, Key: key, Cost: 1})
			if err != nil {
				fault.Store(err)
			}
			count.Add(a.Granted)
		})
	}
	close(start)
	wait.Wait()
	if err, ok := fault.Load().(error); ok {
		return 0, err
	}
	return count.Load(), nil
}
