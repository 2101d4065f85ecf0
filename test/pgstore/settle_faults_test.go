package pgstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
)

var settleLength = flag.Duration("settle", time.Second, "how long to settle reservations while processes and connections are killed")

const (
	settleJobs  = 120
	settleKeys  = 4
	settleCost  = 5
	settleSlots = 1000
	settleNow   = rule.Micros(1_767_000_000e6) // nothing is refilled or expires
)

// settleLimits are limits of every kind of refund.
func settleLimits(t testing.TB) (all []*store.Limit) {
	t.Helper()
	for i, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: 1 << 40, Window: 3600e6},
		{Algorithm: rule.SlidingLog, Quota: rule.MaxLogQuota, Window: 3600e6},
		{Algorithm: rule.TokenBucket, Quota: 1 << 40, Window: 3600e6},
		{Calendar: rule.Month, Quota: 1 << 40},
		{Algorithm: rule.InFlight, Quota: settleSlots, Window: 3600e6},
	} {
		all = append(all, bindRule(t, "settle", fmt.Sprint(i), l))
	}
	return all
}

// settleJob is a reservation to be settled; Used of its units were used.
type settleJob struct {
	ID   rule.ID
	Key  string
	Used int64
}

func (j *settleJob) request(op rule.Op, limits []*store.Limit) store.Request {
	r := store.Request{Op: op, ID: j.ID, Answers: make([]rule.Answer, len(limits))}
	for _, limit := range limits {
		charge := store.Charge{Limit: limit, Key: j.Key, Cost: settleCost, At: settleNow, Used: j.Used}
		if limit.Rule().Algorithm == rule.InFlight {
			charge.Cost = 1
		}
		r.Charges = append(r.Charges, charge)
	}
	return r
}

// settleAll settles each of some reservations one to three times in a random order, four at a time, and ignores the
// outcome.
func settleAll(t testing.TB, pool *pgxpool.Pool, order []byte) (any, error) {
	var jobs []settleJob
	if err := json.Unmarshal(order, &jobs); err != nil {
		return nil, err
	}
	st, err := pgstore.New(pool, pgstore.Options{Now: func() rule.Micros { return settleNow }})
	if err != nil {
		return nil, err
	}
	limits := settleLimits(t)
	rand.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := part; i < len(jobs); i += 4 {
				for range 1 + rand.IntN(3) {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					st.Apply(ctx, []store.Request{jobs[i].request(rule.Settle, limits)}) //nolint:errcheck // unknown outcomes are the point
					cancel()
				}
			}
		})
	}
	all.Wait()
	return "done", nil
}

// Several processes settle every reservation one to three times each, while the processes are killed and the server ends
// their connections and calls. In the end, every reservation counts as if it had been settled once.
func TestSettleUnderFaults(t *testing.T) {
	t.Parallel()
	server := migrated(t, pgtest.Shared(t), pgstore.Options{})
	pool := server.Pool(t)
	st := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return settleNow }})
	limits := settleLimits(t)
	jobs := make([]settleJob, settleJobs)
	used := map[string]int64{}
	for i := range jobs {
		jobs[i] = settleJob{rule.ID(rand.Uint64() | 1), fmt.Sprint("key-", i%settleKeys), rand.Int64N(2 * settleCost)}
		if i%3 == 0 {
			jobs[i].Used = 0 // cancelled
		}
		used[jobs[i].Key] += jobs[i].Used
		noError(t, st.Apply(t.Context(), []store.Request{jobs[i].request(rule.Take, limits)}))
	}
	ended := settleWithFaults(t, server, jobs)
	kit.Eventually(t, "the calls of killed processes to end", func() bool {
		return queryNumber(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'settler'") == 0
	})
	before := 0
	for i := range jobs { // as a caller does that got no answer
		r := jobs[i].request(rule.Settle, limits)
		noError(t, st.Apply(t.Context(), []store.Request{r}))
		if r.Answers[0].Flags&rule.Repeated != 0 {
			before++
		}
		if back := r.Answers[0].Granted; back != settleCost-jobs[i].Used {
			t.Errorf("reservation %d returned %d, want %d", i, back, settleCost-jobs[i].Used)
		}
	}
	t.Logf("%d of %d reservations had been settled; %v", before, settleJobs, ended)
	for key, want := range used {
		for _, limit := range limits {
			if limit.Rule().Algorithm == rule.InFlight {
				want = 0
			}
			if got := limit.Rule().Capacity() - remaining(t, st, store.Charge{Limit: limit, Key: key}); got != want {
				t.Errorf("%s, %v: got %d units used, want %d", key, limit.Rule().Algorithm, got, want)
			}
		}
	}
}

// settleWithFaults lets processes settle reservations, kills them at random and starts others, and ends connections and
// calls. It returns how often.
func settleWithFaults(t *testing.T, server *pgtest.Server, jobs []settleJob) map[string]int {
	t.Helper()
	order := kit.Must(json.Marshal(jobs))(t)
	ended := map[string]int{}
	var mu sync.Mutex
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		ended[what]++
	}
	ctx, cancel := context.WithCancel(t.Context())
	var settling, ending sync.WaitGroup
	pool := server.Pool(t)
	ending.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			what := []string{"pg_terminate_backend", "pg_cancel_backend"}[i%2]
			var hit bool
			err := pool.QueryRow(ctx, "SELECT coalesce(bool_or("+what+`(pid)), false) FROM (SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'settler' AND state = 'active' ORDER BY random() LIMIT 1) a`).Scan(&hit)
			if err == nil && hit {
				note(what)
			}
			<-time.After(time.Duration(10+rand.IntN(40)) * time.Millisecond)
		}
	})
	for start, round := time.Now(), 0; time.Since(start) < *settleLength || round < 3; round++ {
		for range 3 {
			settling.Go(func() { runSettler(t, server.URL("application_name=settler", "pool_max_conns=4"), order, note) })
		}
		settling.Wait()
	}
	cancel()
	ending.Wait()
	mu.Lock() // a process that is about to be killed may already have ended
	defer mu.Unlock()
	if ended["kill"] == 0 || ended["pg_terminate_backend"] == 0 || ended["pg_cancel_backend"] == 0 {
		t.Errorf("too little was ended for the test to be meaningful: %v", ended)
	}
	return maps.Clone(ended)
}

// runSettler runs a process that settles reservations, and kills it after a random time.
func runSettler(t *testing.T, url string, order []byte, note func(string)) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestWorker$")
	cmd.Env = append(os.Environ(), "TEST_WORKER_JOB=settle "+url)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
		return
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	lines := bufio.NewReader(out)
	if ready, err := lines.ReadString('\n'); err != nil {
		t.Errorf("a process is not ready: %q, %v", ready, err)
	}
	if _, err := in.Write(append(slices.Clone(order), '\n')); err != nil {
		t.Error(err)
	}
	done := time.AfterFunc(time.Duration(20+rand.IntN(300))*time.Millisecond, func() {
		if cmd.Process.Kill() == nil {
			note("kill")
		}
	})
	lines.ReadString('\n') //nolint:errcheck // it has settled all, or was killed
	if done.Stop() {
		note("done")
	}
	in.Close()
	io.Copy(io.Discard, lines) //nolint:errcheck // as above
	cmd.Wait()                 //nolint:errcheck // as above
}
