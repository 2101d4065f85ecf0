package journal_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
)

var rounds = flag.Int("rounds", 4, "how often a process is killed, for each degree, with and without pauses")

// killed is the variable that makes the test binary append to a journal until it is killed: a degree, "pauses" or "", a folder.
const killed = "TEST_JOURNAL_KILLED"

// Nothing that was acknowledged is forgotten when the process is killed, also if that happens between any two steps.
func TestKillForgetsNothing(t *testing.T) {
	if args := os.Getenv(killed); args != "" {
		degree, rest, _ := strings.Cut(args, ",")
		pauses, dir, _ := strings.Cut(rest, ",")
		t.Fatal(appendUntilKilled(degree, pauses != "", dir))
	}
	for degree := range degrees {
		for _, pauses := range []string{"", "pauses"} {
			t.Run(degree+pauses, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "state")
				var before [workers]uint64
				var total uint64
				var holes, unfinished, cut int
				for range *rounds {
					acked, n := killAfter(t, degree+","+pauses+","+dir, 2000+rand.IntN(4000))
					total += n
					c := &counters{}
					info, err := journal.Inspect(dir, c.replay)
					if err != nil {
						t.Fatalf("%v; report %+v", err, info)
					}
					for w := range workers {
						if want := max(before[w], acked[w]); c.value[w] < want {
							t.Errorf("counter %d is %d, but %d was acknowledged; report %+v", w, c.value[w], want, info)
						}
					}
					if before = c.value; info.CutAt != "" {
						cut++
					}
					holes, unfinished = holes+info.Holes, unfinished+info.Unfinished
				}
				t.Logf("%d rounds, %d acknowledged, %d holes, %d unfinished records, %d torn ends", *rounds, total, holes, unfinished, cut)
			})
		}
	}
}

// killAfter starts a process, kills it after it has acknowledged so many changes, and returns what each counter was acknowledged as, and how
// many acknowledgements arrived.
func killAfter(t *testing.T, args string, changes int) (acked [workers]uint64, n uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKillForgetsNothing$")
	cmd.Env = append(os.Environ(), killed+"="+args)
	dieWithUs(cmd)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for read := 0; ; read++ {
		if read == changes {
			_ = cmd.Process.Kill()
		}
		var line [16]byte
		if _, err := io.ReadFull(lines, line[:]); err != nil {
			if read < changes {
				t.Fatalf("the process ended by itself: %v\n%q\n%s", err, line, log.String())
			}
			break
		}
		w, value := binary.LittleEndian.Uint64(line[:]), binary.LittleEndian.Uint64(line[8:])
		if w >= workers {
			rest, _ := io.ReadAll(lines)
			_ = cmd.Process.Kill()
			t.Fatalf("the process printed %q%q", line, rest)
		}
		acked[w] = max(acked[w], value)
		n++
	}
	_ = cmd.Wait()
	return acked, n
}

// appendUntilKilled changes counters, and prints what is acknowledged.
func appendUntilKilled(degree string, pauses bool, dir string) error {
	opts := degrees[degree](dir)
	opts.Segment = 64 << 10
	if pauses {
		opts.Pause = func(string) {
			if rand.IntN(1024) == 0 {
				for range rand.IntN(2000) { // others go on in the meantime
					runtime.Gosched()
				}
			}
		}
	}
	j, c, _, err := restored(dir, opts)
	if err != nil {
		return err
	}
	failed := make(chan error, 2*workers)
	var print sync.Mutex
	for w := range uint64(workers) {
		for range 2 { // callers of the same counter
			go func() {
				for {
					if !c.add(j, w) {
						failed <- fmt.Errorf("a record is not durable: %w", j.Err())
						return
					}
					line := binary.LittleEndian.AppendUint64(nil, w)
					line = binary.LittleEndian.AppendUint64(line, c.acked[w].Load())
					print.Lock()
					_, err := os.Stdout.Write(line)
					print.Unlock()
					if err != nil {
						failed <- err
						return
					}
				}
			}()
		}
	}
	for {
		select {
		case <-j.Due():
			if err := c.checkpoint(j); err != nil {
				return err
			}
		case err := <-failed:
			return errors.Join(errors.New("failed"), err)
		}
	}
}
