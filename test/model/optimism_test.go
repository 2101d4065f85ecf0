package model_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/model"
)

// optimist is a process that goes on while its store is away, and an account of what it admitted on its own.
type optimist struct {
	t        *testing.T
	random   *rand.Rand
	k        int64
	plans    []slidegate.Limit
	line     *mirror
	layer    *failure.Store
	base     *slidegate.Limiter
	reserved []*slidegate.Reservation
	losses   bool // answers may be lost
	alone    int  // admissions without the store
	early    int  // of those, before the time at which the store has anything, as it said

	mu       sync.Mutex // held for what follows: the layer charges on a goroutine of its own
	accounts map[string]*account
	lines    []string
}

// account is what was admitted of a key without the store.
type account struct {
	open      []admission         // not sent, oldest first
	unknown   []admission         // sent, without an answer
	owed      int64               // to be charged, in all
	old       int64               // of those, too old to count anywhere before they were charged
	sent      int64               // charged, in all
	exhausted map[int64]exhausted // by the quota of the plan
}

// exhausted is when the store said that there is nothing left, and until when.
type exhausted struct{ said, until time.Time }

type admission struct {
	at    time.Time
	units int64
}

const optimisticWindow = 2 * time.Second

// drawOptimist draws a limit with plans and a process that uses it.
func drawOptimist(t *testing.T, seed uint64) *optimist {
	o := &optimist{t: t, random: rand.New(rand.NewPCG(seed, 3)), accounts: map[string]*account{}}
	o.k, o.losses = 1+o.random.Int64N(6), o.random.IntN(2) == 0
	limit := []slidegate.Limit{
		{Algorithm: slidegate.SlidingLog},
		{Algorithm: slidegate.SlidingWindow, Segments: 4, Overlap: slidegate.OverlapWhole},
		{Algorithm: slidegate.SlidingWindow}, {Algorithm: slidegate.FixedWindow}, {Algorithm: slidegate.TokenBucket},
	}[o.random.IntN(5)]
	limit.Name, limit.Window = "a", optimisticWindow
	for range 2 {
		limit.Quota = 1 + o.random.Int64N(12)
		o.plans = append(o.plans, limit)
	}
	start := time.Now().UnixMicro()
	o.line = &mirror{
		Store: kit.Must(memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }}))(t),
		world: model.NewWorld(start), arrived: o.arrived,
	}
	o.layer = failure.New(o.line, failure.Options{
		Mode: store.FailOptimistic, Optimism: o.k, Local: memstore.NewDefault(), ProbeEvery: 100 * time.Millisecond,
	})
	o.base = kit.Must(slidegate.New(o.layer, o.plans[0]))(t)
	return o
}

func (o *optimist) account(key string) *account {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.accounts[key] == nil {
		o.accounts[key] = &account{exhausted: map[int64]exhausted{}}
	}
	return o.accounts[key]
}

func (a *account) add(some admission) {
	a.open = append(a.open, some)
	slices.SortStableFunc(a.open, func(x, y admission) int { return x.at.Compare(y.at) })
}

// drop takes units of one time out of an account or, if it is zero, the oldest. It returns what it took.
func (a *account) drop(at time.Time, units int64) (dropped []admission) {
	a.age()
	for i := range a.open {
		if some := min(units, a.open[i].units); at.IsZero() || a.open[i].at.UnixMicro() == at.UnixMicro() {
			units -= some
			a.open[i].units -= some
			dropped = append(dropped, admission{a.open[i].at, some})
		}
	}
	return dropped
}

// age takes out units that are a window old: some may count for up to a part more, but not all.
func (a *account) age() {
	old := func(some admission) bool { return time.Since(some.at) >= optimisticWindow }
	for _, some := range a.open {
		if old(some) {
			a.old += some.units
		}
	}
	a.open = slices.DeleteFunc(a.open, old)
	a.unknown = slices.DeleteFunc(a.unknown, old)
}

// outstanding returns how many units count in the process because the store has not acknowledged them.
func (a *account) outstanding() (units int64) {
	a.age()
	for _, some := range slices.Concat(a.open, a.unknown) {
		units += some.units
	}
	return units
}

// arrived notes what the store was charged for the process, and whether it has anything left.
func (o *optimist) arrived(r *store.Request, answered bool) {
	if r.Charges[0].Limit.Namespace() == "slidegate/health" { // the layer's probe
		return
	}
	a, answer := o.account(r.Charges[0].Key), &r.Answers[0]
	o.note("  store: %v of %d key %s: %+v", r.Op, r.Charges[0].Cost, r.Charges[0].Key, *answer)
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Op == rule.Charge {
		a.sent += r.Charges[0].Cost
		if sent := a.drop(time.Time{}, r.Charges[0].Cost); !answered {
			a.unknown = append(a.unknown, sent...)
		}
	}
	quota := r.Charges[0].Limit.Rule().Quota
	maps.DeleteFunc(a.exhausted, func(other int64, _ exhausted) bool { return other != quota }) // a changed limit ends what was said
	switch {
	case r.Op == rule.GiveBack || r.Op == rule.Settle || answer.Remaining > 0:
		clear(a.exhausted)
	case !answered || r.Op == rule.Peek:
	case answer.Allowed:
		a.exhausted[quota] = exhausted{time.Now(), time.Now().Add(answer.NextAfter.Duration())}
	case r.Charges[0].Cost == 1 && r.Op == rule.Take:
		a.exhausted[quota] = exhausted{time.Now(), time.Now().Add(answer.RetryAfter.Duration())}
	}
}

// admitted checks an admission without the store.
func (o *optimist) admitted(key string, limit slidegate.Limit, units int64) error {
	a := o.account(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { a.add(admission{time.Now(), units}) }()
	o.alone++
	a.owed += units
	if e := a.exhausted[limit.Quota]; time.Now().Before(e.until) && time.Now().After(e.said) { // at that very instant the layer may not know it yet
		o.early++
	}
	if most := min(o.k, limit.Quota); a.outstanding()+units > most {
		return fmt.Errorf("admitted %d beside %d that the store does not know, want at most %d", units, a.outstanding(), most)
	}
	return nil
}

func (o *optimist) step() error {
	limit, key := o.plans[0], []string{"x", "y"}[o.random.IntN(2)]
	limiter := o.base
	if o.random.IntN(3) == 0 {
		limit = o.plans[1]
		limiter = kit.Must(o.base.With(limit))(o.t)
	}
	ctx, n := o.t.Context(), 1+o.random.Int64N(2)
	var d slidegate.Decision
	var err error
	switch o.random.IntN(9) {
	case 0:
		o.setLine()
		return nil
	case 1, 2:
		testkit.Delay(time.Duration(o.random.Int64N(int64(optimisticWindow) / 4)))
		return nil
	case 3:
		var r slidegate.Reservation
		if r, d, err = limiter.Reserve(ctx, key, n); d.Allowed {
			o.reserved = append(o.reserved, &r)
		}
	case 4:
		return o.settle(limiter)
	case 5:
		d, err = limiter.AllowUpTo(ctx, key, n)
	default:
		d, err = limiter.AllowN(ctx, key, n)
	}
	o.note("%d of key %s, %v: %v %v", n, key, limit, d, err)
	if err != nil || !d.Allowed || d.Flags&rule.FallbackOptimistic == 0 {
		return err
	}
	return o.admitted(key, limit, d.Granted)
}

func (o *optimist) setLine() {
	o.line.mu.Lock()
	defer o.line.mu.Unlock()
	o.line.state = lineState(o.random.IntN(2))
	if o.losses {
		o.line.state = lineState(o.random.IntN(3))
	}
	o.note("line %d", o.line.state)
}

func (o *optimist) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprintf("%d: ", time.Now().UnixMicro())+fmt.Sprintf(format, args...))
}

// settle settles the oldest reservation. What the process took on its own is no longer owed if it is given back in time, and what was
// used beyond it is. What the store took can be settled only there.
func (o *optimist) settle(limiter *slidegate.Limiter) error {
	if len(o.reserved) == 0 {
		return nil
	}
	r := o.reserved[0]
	charge := r.Charges[0]
	got, err := limiter.SettleAll(o.t.Context(), *r, o.random.Int64N(charge.Cost+2))
	o.note("settle %v: %v %v", charge, got, err)
	if charge.By == 0 { // of the store
		if err == nil {
			o.reserved = o.reserved[1:]
		} else if o.line.state == up && !o.layer.Stats().Down {
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("settle what was taken without the store: %w", err)
	}
	o.reserved = o.reserved[1:]
	a := o.account(string(charge.Key))
	o.mu.Lock()
	defer o.mu.Unlock()
	a.owed -= got.Returned[0]
	if got.Returned[0] >= 0 {
		a.drop(charge.At.Time(), got.Returned[0])
	} else {
		a.add(admission{charge.At.Time(), -got.Returned[0]}) // as old as what was reserved
	}
	return nil
}

// end lets the store come back, and checks that it is charged everything that was admitted without it.
func (o *optimist) end() error {
	o.line.mu.Lock()
	o.line.state = up
	o.line.mu.Unlock()
	if err := o.layer.Close(o.t.Context()); err != nil {
		return err
	}
	for key, a := range o.accounts {
		if a.age(); a.sent > a.owed || !o.losses && a.sent < a.owed-a.old {
			return fmt.Errorf("key %s: the store was charged %d, but %d were admitted without it, of which %d became too old", key, a.sent, a.owed, a.old)
		}
	}
	return nil
}

func (o *optimist) play() error {
	for range 60 {
		if err := o.step(); err != nil {
			return err
		}
		if err := o.line.difference(); err != nil {
			return err
		}
	}
	return o.end()
}

// However the store comes and goes, a process admits at most k units that the store does not know, almost
// nothing while the store has said that there is nothing, and charges all of it later, once.
func TestOptimism(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	t.Logf("the seed is %d", seed)
	alone, early := 0, 0
	for i := range uint64(max(400, *playsFlag/50)) {
		synctest.Test(t, func(t *testing.T) {
			o := drawOptimist(t, seed+i)
			if err := o.play(); err != nil {
				_ = o.end() // ends the goroutine that charges
				t.Fatalf("game %d, %v, k %d: %v\n  %s", seed+i, o.plans, o.k, err, strings.Join(o.lines, "\n  "))
			}
			alone, early = alone+o.alone, early+o.early
		})
	}
	t.Logf("%d admissions without the store, %d of them early", alone, early)
	if alone == 0 || early > max(10, alone/1000) { // the table of refusals has no place for two keys with the same hash
		t.Errorf("got %d early admissions of %d, want almost none of many", early, alone)
	}
}
