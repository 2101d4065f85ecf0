package memstore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A process that works with a folder is killed again and again, at any time, and with pauses between the steps of a request. It says what it
// was answered, over a pipe. What it has said must be known to the process that opens the folder afterwards.

const (
	crashChild = "SLIDEGATE_TEST_CRASH" // the folder, and whether there are pauses
	crashPause = "SLIDEGATE_TEST_CRASH_PAUSE"
	callers    = 64
	smallQuota = 7
	smallLimit = 8 // the one that has it
)

// said is one answer, as the process that is killed reports it.
type said struct {
	Kind  uint32 // what was done
	Limit uint32 // under which limit; the first of crashLimits for requests over several
	Key   uint32
	Units uint32 // what was granted or, by a settlement, given back
	ID    uint64
}

// Kinds of requests.
const (
	saidTake = iota
	saidSeveral
	saidReserve
	saidSettle
	saidCall
	saidRefused
)

// crashLimits returns a limit of each form, with quotas that are not used up within the test, one that is, one that holds, and slots.
func crashLimits(t testing.TB) (limits []*store.Limit) {
	t.Helper()
	day := rule.Micros(86_400_000_000)
	for i, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Segments: 1, Quota: 1e9, Window: day},
		{Algorithm: rule.SlidingWindow, Segments: 1, Anchor: rule.AnchorFirst, Quota: 1e9, Window: day},
		{Algorithm: rule.SlidingWindow, Segments: 10, Quota: 1e9, Window: day},
		{Algorithm: rule.FixedWindow, Quota: 1e9, Window: 365 * day},
		{Quota: 1e9, Window: day},
		{Algorithm: rule.TokenBucket, Quota: 1e6, Burst: 1e9, Window: day},
		{Algorithm: rule.SlidingLog, Quota: 10_000, Window: day},
		{Quota: 100, Window: day},
		{Algorithm: rule.SlidingWindow, Segments: 1, Quota: smallQuota, Window: day},
		{Quota: 1e9, Window: day, Hold: day},
		{Quota: smallQuota, Window: day, Hold: day},
	} {
		limits = append(limits, store.Bind("crash", fmt.Sprint(i), "", testkit.Must(l.Normalize())(t)))
	}
	return limits
}

func crashKey(key uint32) string { return fmt.Sprint("key ", key) }

// TestMain runs the process that is to be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashChild); dir != "" {
		runToBeKilled(dir, os.Getenv(crashPause) != "")
		return
	}
	os.Exit(m.Run())
}

func runToBeKilled(dir string, pauses bool) {
	t := &testing.B{}
	opts := memstore.Options{MaxBytes: 64 << 20}
	if pauses {
		opts = memstore.WithPause(opts, func(string) {
			if rand.Uint32N(32) == 0 {
				for range rand.Uint32N(2000) { // others go on in the meantime
					runtime.Gosched()
				}
			}
		})
	}
	st, err := memstore.Open(dir, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	limits := crashLimits(t)
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	checkpoint := make(chan struct{}, 1)
	report := func(all ...said) {
		mu.Lock()
		defer mu.Unlock()
		for _, one := range all {
			_ = binary.Write(out, binary.LittleEndian, one)
		}
		_ = out.Flush()
		if rand.IntN(500) == 0 {
			select {
			case checkpoint <- struct{}{}:
			default: // there is one
			}
		}
	}
	report(said{Kind: ^uint32(0)}) // ready
	var ids atomic.Uint64
	ids.Store(uint64(time.Now().UnixNano()))
	for range callers {
		go func() {
			for {
				report(crashStep(st, limits, &ids)...)
			}
		}()
	}
	for range checkpoint {
		if err := st.Checkpoint(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// crashStep makes a random request, or a reservation and its settlement, and returns what was answered.
func crashStep(st *memstore.Store, limits []*store.Limit, ids *atomic.Uint64) []said {
	key := rand.Uint32N(2000)
	if rand.IntN(2) == 0 {
		key = rand.Uint32N(4)
	}
	ask := func(r store.Request, charges ...store.Charge) rule.Answer {
		r.Charges, r.Answers = charges, make([]rule.Answer, len(charges))
		if err := st.Apply(context.Background(), []store.Request{r}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return r.Answers[0]
	}
	n := rand.IntN(len(limits))
	if rand.IntN(3) == 0 {
		n = smallLimit
	}
	if n == smallLimit { // a few callers use it up at the same time, again and again
		key = uint32(time.Now().UnixMilli())
	}
	charge := store.Charge{Limit: limits[n], Key: crashKey(key), Cost: 1}
	one := said{Limit: uint32(n), Key: key, Units: 1}
	switch rand.IntN(8) {
	case 0:
		second := store.Charge{Limit: limits[4], Key: crashKey(key), Cost: 1}
		first := store.Charge{Limit: limits[0], Key: crashKey(key), Cost: 1}
		if ask(store.Request{}, first, second).Allowed {
			return []said{{Kind: saidSeveral, Key: key, Units: 1}}
		}
		return nil
	case 1, 2:
		id := ids.Add(1)
		charge = store.Charge{Limit: limits[9+rand.IntN(2)], Key: crashKey(key), Cost: 5}
		one = said{Kind: saidReserve, Limit: 9, Key: key, Units: 5, ID: id}
		if charge.Limit == limits[10] {
			one.Limit = 10
		}
		if !ask(store.Request{Hold: true, ID: rule.ID(id)}, charge).Allowed {
			return []said{{Kind: saidRefused, Limit: one.Limit, Key: key, Units: 5}}
		}
		if rand.IntN(2) == 0 {
			return []said{one}
		}
		charge.Used = 2
		a := ask(store.Request{Op: rule.Settle, ID: rule.ID(id)}, charge)
		if a.Flags&rule.Unsettled != 0 {
			return []said{one}
		}
		return []said{one, {Kind: saidSettle, Limit: one.Limit, Key: key, Units: uint32(a.Granted), ID: id}}
	case 3:
		id := ids.Add(1)
		if a := ask(store.Request{Once: true, ID: rule.ID(id)}, charge); a.Allowed {
			if a.Flags&rule.NotOnce == 0 {
				one.Kind, one.ID = saidCall, id
			}
			return []said{one}
		}
	default:
		if ask(store.Request{}, charge).Allowed {
			return []said{one}
		}
	}
	return []said{{Kind: saidRefused, Limit: uint32(n), Key: key, Units: 1}}
}

// ledger is what a killed process has said.
type ledger struct {
	used    map[[2]uint32]int64 // units by limit and key
	calls   map[uint64]said
	settled map[uint64]said
	full    map[[2]uint32]bool // keys that were refused one unit
	answers int
	began   time.Time
}

func (l *ledger) add(s said) {
	l.answers++
	at := [2]uint32{s.Limit, s.Key}
	switch s.Kind {
	case saidTake, saidReserve:
		l.used[at] += int64(s.Units)
	case saidCall:
		l.used[at] += int64(s.Units)
		l.calls[s.ID] = s
	case saidSeveral:
		l.used[[2]uint32{0, s.Key}] += int64(s.Units)
		l.used[[2]uint32{4, s.Key}] += int64(s.Units)
	case saidSettle:
		l.used[at] -= int64(s.Units)
		l.settled[s.ID] = s
	case saidRefused:
		if s.Units == 1 && s.Limit != 10 { // what is held may be given back
			l.full[at] = true
		}
	}
}

// check compares a store with the ledger. A request that had no answer yet when its process was killed may have counted.
func (l *ledger) check(t testing.TB, st *memstore.Store, limits []*store.Limit) (forgotten int) {
	t.Helper()
	ask := func(r store.Request, c store.Charge) rule.Answer {
		r.Charges, r.Answers = []store.Charge{c}, make([]rule.Answer, 1)
		if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
			t.Fatal(err)
		}
		return r.Answers[0]
	}
	complain := func(format string, args ...any) {
		if forgotten++; forgotten <= 10 {
			t.Errorf(format, args...)
		}
	}
	for at, used := range l.used {
		limit := limits[at[0]]
		a := ask(store.Request{Op: rule.Peek}, store.Charge{Limit: limit, Key: crashKey(at[1]), Cost: 1})
		least := used
		if limit.Rule().Algorithm == rule.TokenBucket {
			least -= 12 * int64(1+time.Since(l.began)/time.Second) // what has come back since
		}
		if got := limit.Rule().Capacity() - a.Remaining; got < least {
			complain("limit %d, key %d: %d units are used, but %d were answered", at[0], at[1], got, used)
		}
		if l.full[at] && a.Allowed {
			complain("limit %d, key %d: was refused, and is admitted now", at[0], at[1])
		}
		if quota := limit.Rule().Quota; limit.Rule().Algorithm != rule.TokenBucket && used > quota {
			complain("limit %d, key %d: %d units were granted of %d", at[0], at[1], used, quota)
		}
	}
	for id, s := range l.settled {
		c := store.Charge{Limit: limits[s.Limit], Key: crashKey(s.Key), Cost: 5, Used: 2}
		if a := ask(store.Request{Op: rule.Settle, ID: rule.ID(id)}, c); a.Flags&rule.Repeated == 0 || a.Granted != int64(s.Units) {
			complain("limit %d, key %d: a settlement of %d was settled again: %+v", s.Limit, s.Key, s.Units, a)
		}
	}
	for id, s := range l.calls {
		c := store.Charge{Limit: limits[s.Limit], Key: crashKey(s.Key), Cost: 1}
		if a := ask(store.Request{Once: true, ID: rule.ID(id)}, c); a.Flags&rule.Repeated == 0 {
			complain("limit %d, key %d: a call was made again: %+v", s.Limit, s.Key, a)
		}
	}
	return forgotten
}

// rounds returns how many times as long the tests run as usual.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("TEST_LONG")); err == nil {
		return n
	}
	return 1
}

func TestKilled(t *testing.T) { testKilled(t, 4*rounds(), false) }

func TestKilledBetweenSteps(t *testing.T) { testKilled(t, 4*rounds(), true) }

func testKilled(t *testing.T, rounds int, pauses bool) {
	memstore.Alone(t)
	dir := filepath.Join(t.TempDir(), "state")
	limits := crashLimits(t)
	skipped := 0
	l := &ledger{map[[2]uint32]int64{}, map[uint64]said{}, map[uint64]said{}, map[[2]uint32]bool{}, 0, time.Now()}
	for round := range rounds {
		killOnce(t, dir, pauses, l)
		copied := filepath.Join(t.TempDir(), "copy")
		check(t, os.CopyFS(copied, os.DirFS(dir)))
		skipped += testkit.Must(memstore.Inspect(copied))(t).Skipped
		st := testkit.Must(memstore.Open(copied, memstore.Options{MaxBytes: 64 << 20}))(t)
		forgotten := l.check(t, st, limits)
		check(t, st.Close())
		check(t, os.RemoveAll(copied))
		if forgotten > 0 {
			t.Fatalf("after %d kills and %d answers: %d are wrong", round+1, l.answers, forgotten)
		}
	}
	t.Logf("%d kills, %d answers, %d settlements, %d calls, %d keys, %d unfinished records: nothing forgotten",
		rounds, l.answers, len(l.settled), len(l.calls), len(l.used), skipped)
}

// killOnce runs a process over the folder, kills it, and adds what it said to the ledger.
func killOnce(t testing.TB, dir string, pauses bool, l *ledger) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+dir)
	if pauses {
		cmd.Env = append(cmd.Env, crashPause+"=yes")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out := testkit.Must(cmd.StdoutPipe())(t)
	check(t, cmd.Start())
	answers := bufio.NewReader(out)
	var s said
	if err := binary.Read(answers, binary.LittleEndian, &s); err != nil {
		t.Fatalf("the process did not begin: %v\n%s", err, &stderr)
	}
	kill := 100 + rand.IntN(10_000)
	for n := 0; binary.Read(answers, binary.LittleEndian, &s) == nil; n++ {
		if l.add(s); n == kill {
			_ = cmd.Process.Kill()
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the process ended by itself: %v\n%s", err, &stderr)
	}
}
