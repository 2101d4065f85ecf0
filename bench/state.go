package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// severalCheckpoints makes a round so long that a folder under load needs several checkpoints in it.
const severalCheckpoints = 5

// stateThroughput compares a store in memory with the same store over a folder, which survives a crash: a hot key and many keys at saturation.
func (r *run) stateThroughput() ([]*table, error) {
	var rows []library
	for _, row := range []library{slidegateRow(rowWindow, "sliding window", slidegate.Limit{Algorithm: slidegate.SlidingWindow}), defaultRow()} {
		rows = append(rows, row, r.inFolder(row))
	}
	hot := r.hotLoad("hot key, allowed, in a folder")
	hot.minShare, hot.maxShare = 0.999, 1
	s := results{}
	for _, procs := range r.procs {
		g := &group{spec: spec{quota: 1 << 40, window: quotaWindow}, loads: []load{hot}, procs: []int{procs}, libraries: rows, longer: severalCheckpoints}
		if err := r.timeGroup(g, s); err != nil {
			return nil, err
		}
	}
	tables := []*table{r.timeTable(&hot, rows, s)}
	n := 1_000_000
	if r.quick {
		n = 10_000
	}
	all := newKeys(0, n)
	g := &group{libraries: rows, spec: spec{quota: ampleQuota, window: quotaWindow, keys: n}, fill: all, times: 1, procs: r.procs, longer: severalCheckpoints}
	for name, order := range map[string]func(int, uint64) keys{"uniform": all.uniform, "zipf": all.zipf} {
		lists := perGoroutine(slices.Max(r.procs), func(seed uint64) keys { return order(n, seed) })
		g.loads = append(g.loads, load{
			name: fmt.Sprintf("%s keys, %s, in a folder", count(n), name), minShare: 0.999, maxShare: 1, lists: func(*library) []keys { return lists },
		})
	}
	if err := r.timeGroup(g, s); err != nil {
		return nil, err
	}
	for i := range g.loads {
		tables = append(tables, r.timeTable(&g.loads[i], rows, s))
	}
	return tables, nil
}

// inFolder returns the row with a store over a folder of its own.
func (r *run) inFolder(row library) library {
	open := row.open
	row.name += ", in a folder"
	row.open = func(s spec) (limiter, error) {
		s.folder = r.folder
		return open(s)
	}
	return row
}

// folderStore opens a store over a new folder.
func folderStore(in string, opts memstore.Options) (*memstore.Store, func(), error) {
	dir, err := os.MkdirTemp(in, "state-")
	if err != nil {
		return nil, nil, err
	}
	st, err := memstore.Open(filepath.Join(dir, "state"), opts)
	if err != nil {
		return nil, nil, err
	}
	return st, func() {
		_ = st.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

var oneWindow = slidegate.Limit{Quota: 1 << 40, Window: time.Hour, Algorithm: slidegate.SlidingWindow}

// stateLatency measures how long decisions of one caller take, who makes 100,000 a second.
func (r *run) stateLatency() ([]*table, error) {
	t := &table{title: "Latency of one caller at 100,000 decisions a second, 1M keys", columns: []string{"store", "p50", "p99", "p99.9"}}
	n, took := 1_000_000, 5*time.Second
	if r.quick {
		n, took = 10_000, 200*time.Millisecond
	}
	keys := newKeys(0, n).uniform(n, 7)
	names := []string{"slidegate, memory", "slidegate, in a folder", "slidegate, in a folder, checkpoints all the time"}
	found := make([][3][]float64, len(names))
	for round := range r.rounds {
		for i, name := range names {
			r.logf("latency of %s: round %d of %d", name, round+1, r.rounds)
			h, err := r.stateLatencyOf(i, keys, n, took)
			if err != nil {
				return nil, err
			}
			for q, part := range []float64{0.5, 0.99, 0.999} {
				found[i][q] = append(found[i][q], float64(h.quantile(part)))
			}
		}
	}
	for i, name := range names {
		t.add(name, nanos(median(found[i][0])), nanos(median(found[i][1])), nanos(median(found[i][2])))
	}
	t.note("Medians of %d interleaved rounds, in nanoseconds: the time of each decision alone, not from a schedule.", r.rounds)
	return []*table{t}, nil
}

func (r *run) stateLatencyOf(kind int, keys keys, n int, took time.Duration) (*histogram, error) {
	opts := memstore.Options{MaxBytes: 1 << 30}
	st, done, err := memstore.NewDefault(), func() {}, error(nil)
	if kind == 0 {
		st, err = memstore.New(opts)
	} else {
		st, done, err = folderStore(r.folder, opts)
	}
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := slidegate.New(st, oneWindow)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	for i := range n {
		if _, err := l.Allow(ctx, keys.at(i)); err != nil {
			return nil, err
		}
	}
	stop := make(chan struct{})
	var background sync.WaitGroup
	if kind == 2 {
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = st.Checkpoint()
				}
			}
		})
	}
	h := new(histogram)
	began := time.Now()
	for i := 0; ; i++ {
		due := time.Duration(i) * 10 * time.Microsecond
		for time.Since(began) < due {
		}
		if due > took {
			break
		}
		at := time.Now()
		if _, err := l.Allow(ctx, keys.at(i%n)); err != nil {
			return nil, err
		}
		h.add(time.Since(at))
	}
	close(stop)
	background.Wait()
	return h, nil
}

// stateSynced compares decisions that are on the disk before they are answered with transactions of bbolt that read and write a counter.
func (r *run) stateSynced() ([]*table, error) {
	t := &table{title: "Decisions that are on the disk, per second", columns: []string{"callers", "decisions", "bbolt, best", "ratio"}}
	took := 1500 * time.Millisecond
	if r.quick {
		took = 100 * time.Millisecond
	}
	for _, callers := range []int{1, 8, 64} {
		own, theirs := []float64{}, map[time.Duration][]float64{}
		for round := range r.rounds {
			r.logf("synced, %d callers: round %d of %d", callers, round+1, r.rounds)
			n, err := r.syncedRate(callers, took)
			if err != nil {
				return nil, err
			}
			own = append(own, n)
			for _, delay := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond} {
				if n, err = r.boltRate(callers, delay, took); err != nil {
					return nil, err
				}
				theirs[delay] = append(theirs[delay], n)
			}
		}
		best := 0.0
		for _, rates := range theirs {
			best = max(best, median(rates))
		}
		t.add(fmt.Sprint("slidegate, synced, ", callers), count(int(median(own))), count(int(best)), ratio(median(own), best))
	}
	t.note("Medians of %d interleaved rounds on the same disk. bbolt: DB.Batch of a Get and a Put of 32 bytes, 10,000 keys, with MaxBatchSize of the number of callers "+
		"and the best of MaxBatchDelay 0, 200 us and 1 ms.", r.rounds)
	return []*table{t}, nil
}

// byCallers runs callers for a while, and returns how often they did something per second.
func byCallers(callers int, took time.Duration, do func(caller, i int) error) (float64, error) {
	var all sync.WaitGroup
	counts, errs := make([]int, callers), make([]error, callers)
	began := time.Now()
	for c := range callers {
		all.Go(func() {
			for i := 0; time.Since(began) < took && errs[c] == nil; i++ {
				errs[c] = do(c, i)
				counts[c]++
			}
		})
	}
	all.Wait()
	sum := 0
	for c := range counts {
		if errs[c] != nil {
			return 0, errs[c]
		}
		sum += counts[c]
	}
	return float64(sum) / time.Since(began).Seconds(), nil
}

func (r *run) syncedRate(callers int, took time.Duration) (float64, error) {
	st, done, err := folderStore(r.folder, memstore.Options{Synced: true})
	if err != nil {
		return 0, err
	}
	defer done()
	l, err := slidegate.New(st, oneWindow)
	if err != nil {
		return 0, err
	}
	keys := newKeys(0, 10_000)
	return byCallers(callers, took, func(caller, i int) error {
		_, err := l.Allow(context.Background(), keys.at((caller*7919+i)%10_000))
		return err
	})
}

func (r *run) boltRate(callers int, delay, took time.Duration) (float64, error) {
	dir, err := os.MkdirTemp(r.folder, "bbolt-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.MaxBatchDelay, db.MaxBatchSize = delay, callers
	bucket := []byte("b")
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucket); return err }); err != nil {
		return 0, err
	}
	keys := newKeys(0, 10_000)
	return byCallers(callers, took, func(caller, i int) error {
		key := []byte(keys.at((caller*7919 + i) % 10_000))
		return db.Batch(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			var value [32]byte
			copy(value[:], b.Get(key))
			binary.LittleEndian.PutUint64(value[:], binary.LittleEndian.Uint64(value[:])+1)
			return b.Put(key, value[:])
		})
	})
}

// stateStart measures how long a store with 1M keys takes to open.
func (r *run) stateStart() ([]*table, error) {
	t := &table{title: "Opening a folder with 1M keys", columns: []string{"keys", "after a checkpoint, ms", "and as many more requests, ms"}}
	n := 1_000_000
	if r.quick {
		n = 10_000
	}
	for _, c := range []struct {
		name  string
		limit slidegate.Limit
		times int
	}{
		{"slidegate, windows of one part", oneWindow, 1},
		{"slidegate, sliding logs of 10", slidegate.Limit{Quota: 100, Window: time.Hour, Algorithm: slidegate.SlidingLog}, 10},
		{"slidegate, the default, 10 units", slidegate.Limit{Quota: 1000, Window: time.Hour}, 10},
	} {
		after, more, err := r.startTimes(c.limit, n, c.times)
		if err != nil {
			return nil, err
		}
		t.add(c.name, fmt.Sprintf("%.0f", after), fmt.Sprintf("%.0f", more))
	}
	return []*table{t}, nil
}

func (r *run) startTimes(limit slidegate.Limit, n, times int) (checkpointed, more float64, err error) {
	dir, err := os.MkdirTemp(r.folder, "start-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	opts := memstore.Options{MaxBytes: 2 << 30}
	keys := newKeys(0, n)
	fill := func(st *memstore.Store, times int) error {
		l, err := slidegate.New(st, limit)
		for i := 0; err == nil && i < n*times; i++ {
			_, err = l.Allow(context.Background(), keys.at(i%n))
		}
		return err
	}
	st, err := memstore.Open(dir, opts)
	if err != nil {
		return 0, 0, err
	}
	if err = fill(st, times); err == nil {
		err = st.Checkpoint()
	}
	if closed := st.Close(); err != nil || closed != nil {
		return 0, 0, fmt.Errorf("%w %w", err, closed)
	}
	open := func() (float64, error) {
		var all []float64
		for range 3 {
			began := time.Now()
			if st, err = memstore.Open(dir, opts); err != nil {
				return 0, err
			}
			all = append(all, float64(time.Since(began).Milliseconds()))
			if err := st.Close(); err != nil {
				return 0, err
			}
		}
		return median(all), nil
	}
	if checkpointed, err = open(); err != nil {
		return 0, 0, err
	}
	if st, err = memstore.Open(dir, opts); err != nil {
		return 0, 0, err
	}
	if err = fill(st, 1); err != nil {
		return 0, 0, err
	}
	if err = st.Close(); err != nil {
		return 0, 0, err
	}
	more, err = open()
	return checkpointed, more, err
}
