package faults_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// fault is a store and one way in which it breaks.
type fault struct {
	store, name string
	open        func(t *testing.T, p program) setting
}

// setting is a store that runs, and how to break it.
type setting struct {
	url        string
	begin, end func()
	atStart    bool // the fault is there before the service starts
	forgets    bool // the store is empty after the fault
	known      bool // the keys that clients ask for during the fault have been charged before
}

// keys is how many keys there are of each kind.
const keys = 4

// kinds of keys.
const (
	used   = "used"   // used up before the fault
	fresh  = "fresh"  // first requested during the fault
	others = "others" // a new key with each request, of a policy with a large quota
)

// answer is a decision about a key.
type answer struct {
	decision
	kind, key string
}

// row is what a fault does to a program.
type row struct {
	fault   fault
	program program
	ended   string // the last line of a program that ended by itself
	began   time.Time
	healed  time.Time
	answers []answer

	firstFallback time.Duration // after the fault began; -1 if there was none
	longest       time.Duration
	fallbacks     map[string]float64 // share of the decisions during the fault, by kind of key
	forgets       bool
	prepared      bool           // the keys that are to be used up were
	usedAdmitted  int            // of keys that were used up
	freshAdmitted map[string]int // by key, during the fault
	freshByMode   map[string]int // of these, by the failure mode
	storeUp       string         // its values during the fault, in turn
	ready         string         // the same of /readyz
	log           map[string]int // lines by level
	logged        []line
	recovered     time.Duration // until the store decided again; -1 if it did not
	upAgain       bool          // store_up and /readyz are well in the end
	failed        int           // requests without a decision
}

// patience is how long a program may take to recover.
const patience = 20 * time.Second

// measure breaks a store for a time under load.
func measure(t *testing.T, f fault, p program, lasts time.Duration) *row {
	t.Helper()
	set := f.open(t, p)
	r := &row{fault: f, program: p, began: time.Now(), forgets: set.forgets}
	if set.atStart {
		set.begin()
	}
	s := serve(t, p, policies(set.url, p))
	if s.Over() {
		lines := s.lines()
		r.ended = strings.TrimSpace(s.Output.String())
		if len(lines) > 0 {
			r.ended = lines[len(lines)-1].Msg + ": " + lines[len(lines)-1].Error
		}
		return r
	}
	if !set.atStart {
		prepare(t, s, set)
		r.prepared = true
	}
	l := startLoad(s)
	defer l.stop()
	if !set.atStart {
		testkit.Eventually(t, "clients are answered", func() bool { return l.count() > 50 })
		r.began = time.Now()
		set.begin()
	}
	close(l.broken)
	w := watch(s)
	pass(time.Until(r.began.Add(lasts)))
	r.storeUp, r.ready = w.stop()
	set.end()
	r.healed = time.Now()
	r.awaitRecovery(s, l)
	l.stop()
	r.answers = l.answers
	r.evaluate(s)
	return r
}

// prepare waits until the store decides, and uses up the keys that are to be used up.
func prepare(t *testing.T, s *service, set setting) {
	t.Helper()
	testkit.Eventually(t, "the store decides", func() bool { return s.ask("many", "first").byStore() })
	for i := range keys {
		s.useUp(t, "default", keyOf(used, i))
		if set.known {
			testkit.Eventually(t, "the store charges", func() bool { return s.ask("default", keyOf(fresh, i)).byStore() })
		}
	}
}

func keyOf(kind string, i int) string { return fmt.Sprint(kind, "-", i) }

// pass lets time pass for the clients.
func pass(d time.Duration) { <-time.After(d) }

// calm is how long the store must decide everything to count as back.
const calm = 1500 * time.Millisecond

// awaitRecovery waits until the store decides again, about all keys, and says so.
func (r *row) awaitRecovery(s *service, l *load) {
	r.recovered = -1
	for end := r.healed.Add(patience); time.Now().Before(end); pass(50 * time.Millisecond) {
		last := l.lastFallback()
		if time.Since(cmpTime(last, r.healed)) < calm {
			continue
		}
		if r.recovered = max(0, last.Sub(r.healed)); s.storeUp() == "1" && s.ready() == "200" {
			r.upAgain = true
			return
		}
	}
}

// cmpTime returns the later of two times.
func cmpTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// evaluate computes the figures of a row from what was seen.
func (r *row) evaluate(s *service) {
	r.firstFallback = -1
	r.fallbacks, r.freshAdmitted, r.log = map[string]float64{}, map[string]int{}, map[string]int{}
	r.freshByMode = map[string]int{}
	n := map[string]float64{}
	for _, a := range r.answers {
		if a.err != nil {
			r.failed++
		}
		end := a.began.Add(a.took)
		if end.Before(r.began) {
			continue
		}
		r.longest = max(r.longest, a.took)
		switch {
		case a.kind == used && a.admitted() && (!r.forgets || end.Before(r.healed)):
			r.usedAdmitted++
		case a.kind == fresh && a.admitted() && end.Before(r.healed): // afterwards the store has units of its own
			r.freshAdmitted[a.key]++
			if a.fallback() {
				r.freshByMode[a.key]++
			}
		}
		if a.fallback() && (r.firstFallback < 0 || end.Sub(r.began) < r.firstFallback) {
			r.firstFallback = end.Sub(r.began)
		}
		if end.Before(r.healed) {
			n[a.kind]++
			if a.fallback() {
				r.fallbacks[a.kind]++
			}
		}
	}
	for kind, count := range n {
		r.fallbacks[kind] /= count
	}
	for _, l := range s.lines() {
		if !l.Time.Before(r.began) && l.Msg != "listening" && l.Msg != "running" {
			r.log[l.Level]++
			r.logged = append(r.logged, l)
		}
	}
}

// most returns the largest of the counts of keys.
func most(counts map[string]int) int {
	return slices.Max(append(slices.Collect(maps.Values(counts)), 0))
}

// load is a set of clients that send requests at a moderate pace.
type load struct {
	broken chan struct{} // closed when the fault has begun
	end    chan struct{}
	all    sync.WaitGroup

	mu      sync.Mutex
	answers []answer
	last    time.Time // when the last answer by a failure mode arrived
}

// startLoad starts clients: one for each key that was used up, one for each fresh key, which waits for the fault, and some that
// invent keys.
func startLoad(s *service) *load {
	l := &load{broken: make(chan struct{}), end: make(chan struct{})}
	for i := range keys {
		l.all.Go(func() { l.client(s, "default", used, func(int) string { return keyOf(used, i) }) })
		l.all.Go(func() {
			select {
			case <-l.broken:
				l.client(s, "default", fresh, func(int) string { return keyOf(fresh, i) })
			case <-l.end:
			}
		})
		l.all.Go(func() { l.client(s, "many", others, func(n int) string { return fmt.Sprint(others, "-", i, "-", n) }) })
	}
	return l
}

// client sends requests, with pauses of 15 ms, until the end.
func (l *load) client(s *service, policy, kind string, key func(n int) string) {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.end:
			return
		case <-tick.C:
		}
		a := answer{s.ask(policy, key(n)), kind, key(n)}
		l.mu.Lock()
		l.answers = append(l.answers, a)
		if a.fallback() {
			l.last = time.Now()
		}
		l.mu.Unlock()
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answers)
}

func (l *load) lastFallback() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// stop ends the clients. It may be called twice.
func (l *load) stop() {
	select {
	case <-l.end:
	default:
		close(l.end)
	}
	l.all.Wait()
}

// watcher samples store_up and /readyz.
type watcher struct {
	end  chan struct{}
	done sync.WaitGroup
	up   changes
	well changes
}

// changes are the values of something in turn, with when each was first seen.
type changes []string

func (c *changes) note(began time.Time, value string) {
	if n := len(*c); n == 0 || !strings.HasPrefix((*c)[n-1]+" ", value+" at ") {
		*c = append(*c, fmt.Sprintf("%s at %.1f", value, time.Since(began).Seconds()))
	}
}

func (c changes) String() string {
	if len(c) == 1 {
		return last(c[0]) // from the beginning, however long the first sample took
	}
	return strings.Join(c[:min(len(c), 6)], ", ")
}

// watch begins to sample.
func watch(s *service) *watcher {
	w, began := &watcher{end: make(chan struct{})}, time.Now()
	w.done.Go(func() {
		for {
			w.up.note(began, s.storeUp())
			w.well.note(began, s.ready())
			select {
			case <-w.end:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return w
}

// stop ends sampling and returns what was seen.
func (w *watcher) stop() (up, well string) {
	close(w.end)
	w.done.Wait()
	return w.up.String(), w.well.String()
}

// last returns the last value of what watcher.stop returned.
func last(values string) string {
	parts := strings.Split(values, ", ")
	value, _, _ := strings.Cut(parts[len(parts)-1], " at ")
	return value
}

// levels returns the log lines by level, such as "2 WARN, 1 INFO".
func (r *row) levels() string {
	var parts []string
	for _, level := range slices.SortedFunc(maps.Keys(r.log), func(a, b string) int { return cmp.Compare(a, b) }) {
		parts = append(parts, fmt.Sprint(r.log[level], " ", level))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}
