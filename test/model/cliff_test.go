package model_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/model"
)

// The cliff that is no longer there: limits of one name that name no algorithm, with quotas on both sides of 100, each from another
// file, forget no unit when they take turns. The model here is a list of units: what the store counts is at least those of the last
// window, and at most those of the last window and a part.

// cliff is a key that two instances charge under many quotas.
type cliff struct {
	t         testing.TB
	random    *rand.Rand
	clock     *storetest.Clock
	window    time.Duration
	key       string
	instances [2]store.Store
	restart   func(i int)      // replaces an instance by a new process
	charged   []*unitsAt       // in order
	reserved  []heldUnits      // not settled
	lines     []string         // what was done
	events    map[string]int64 // how often
}

// unitsAt is a number of units that were charged together.
type unitsAt struct {
	at    rule.Micros
	units int64
}

// heldUnits is a reservation that was made, and what it charged.
type heldUnits struct {
	slidegate.Reservation
	charge *unitsAt
}

var cliffQuotas = []int64{1, 2, 5, 60, 90, 99, 100, 101, 102, 150, 600, 10_000}

// instance returns a limiter of an instance whose file has a limit of that quota.
func (c *cliff) instance(i int, quota int64) *slidegate.Limiter {
	c.t.Helper()
	limit := slidegate.Limit{Name: "cliff", Quota: quota, Window: c.window}
	switch c.random.IntN(6) {
	case 0:
		limit.CountRefused = true
	case 1:
		limit.Lease = c.window >= 15*time.Second && c.instances[i].Traits().RoundTrips == 0 // otherwise the layer is missing
	}
	return kit.Must(slidegate.New(slidegate.Namespace(c.instances[i], c.key), limit))(c.t)
}

// live returns how many units were charged within a time before now.
func (c *cliff) live(within rule.Micros) (units int64) {
	for _, u := range c.charged {
		if u.at > c.clock.Now()-within {
			units += u.units
		}
	}
	return units
}

// used returns what the store counts: what is missing of a quota that nothing exhausts.
func (c *cliff) used(i int) int64 {
	c.t.Helper()
	limit := slidegate.Limit{Name: "cliff", Quota: 1 << 40, Window: c.window}
	limiter := kit.Must(slidegate.New(slidegate.Namespace(c.instances[i], c.key), limit))(c.t)
	return 1<<40 - kit.Must(limiter.Peek(c.t.Context(), "key", 1))(c.t).Remaining
}

func (c *cliff) charge(at rule.Micros, units int64) *unitsAt {
	u := &unitsAt{at, units}
	c.charged = append(c.charged, u)
	return u
}

// step makes one request, or lets time pass.
func (c *cliff) step() error {
	i, quota := c.random.IntN(2), cliffQuotas[c.random.IntN(len(cliffQuotas))]
	n := []int64{1, 1, 3, quota/2 + 1, quota, c.random.Int64N(120) + 1}[c.random.IntN(6)]
	switch c.random.IntN(10) {
	case 0, 1:
		c.clock.Advance(rule.Micros(c.random.Int64N(c.window.Microseconds() / 3)))
	case 2:
		c.clock.Advance([]rule.Micros{1, rule.Micros(c.window.Microseconds()) / 60, rule.Micros(c.window.Microseconds())}[c.random.IntN(3)])
	case 3:
		return c.settle(i)
	case 4:
		if c.random.IntN(4) == 0 {
			c.restart(i)
			c.note("restart %d", i)
		}
	default:
		return c.take(i, quota, n)
	}
	return nil
}

// take takes units in one of the ways, and checks that what is admitted fits.
func (c *cliff) take(i int, quota, n int64) (err error) {
	limiter, ctx := c.instance(i, quota), c.t.Context()
	counted := limiter.Limits()[0].CountRefused
	before := c.live(rule.Micros(c.window.Microseconds()))
	var d slidegate.Decision
	forced, booked := false, false
	switch c.random.IntN(8) {
	case 0:
		d, err = limiter.AllowUpTo(ctx, "key", n)
		n = 1 // what counts if it is refused
	case 1:
		forced = true
		n = min(n, 30)
		d, err = limiter.Charge(ctx, "key", n)
	case 2, 3:
		var r slidegate.Reservation
		if r, d, err = limiter.Reserve(ctx, "key", n); err == nil && d.Allowed {
			booked, c.reserved = true, append(c.reserved, heldUnits{r, c.charge(d.At, n)})
		}
	default:
		d, err = limiter.AllowN(ctx, "key", n)
	}
	c.note("%v of %d by instance %d under %v: %+v", map[bool]string{false: "take", true: "charge"}[forced], n, i, limiter.Limits(), d)
	switch {
	case err != nil:
		return err
	case !d.Allowed && counted && n <= quota:
		c.charge(d.At, n)
		c.events["refused and counted"]++
	case !d.Allowed:
		c.events["refused"]++
	default:
		if c.events["admitted"]++; !booked {
			c.charge(d.At, d.Granted)
		}
		if !forced && before+d.Granted > quota {
			return fmt.Errorf("admitted %d under a quota of %d, with %d in the window", d.Granted, quota, before)
		}
	}
	return nil
}

// settle settles a reservation, made under any quota, with less or more than it took.
func (c *cliff) settle(i int) error {
	if len(c.reserved) == 0 {
		return nil
	}
	last := len(c.reserved) - 1
	which := c.random.IntN(last + 1)
	r := c.reserved[which]
	c.reserved[which] = c.reserved[last]
	c.reserved = c.reserved[:last]
	used := c.random.Int64N(r.charge.units + 2)
	at := c.clock.Now()
	got, err := c.instance(i, 60).SettleAll(c.t.Context(), r.Reservation, used)
	c.note("settle %d of %d, charged at %d: %+v", used, r.charge.units, r.charge.at, got)
	if err != nil {
		return err
	}
	switch back := got.Returned[0]; {
	case back < 0:
		c.charge(at, -back)
	case back > r.charge.units-used:
		return fmt.Errorf("settled %d of %d: %d were returned", used, r.charge.units, back)
	case r.charge.at > at-rule.Micros(c.window.Microseconds()) && back != r.charge.units-used:
		return fmt.Errorf("settled %d of %d in the window: %d were returned", used, r.charge.units, back)
	default:
		r.charge.units -= back
		c.events["given back"] += min(1, back)
	}
	return nil
}

func (c *cliff) note(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf("%d: ", c.clock.Now())+fmt.Sprintf(format, args...))
}

// check compares what the store counts with the units.
func (c *cliff) check() error {
	window := rule.Micros(c.window.Microseconds())
	part := model.Resolve(slidegate.Limit{Quota: 1, Window: c.window}).Part()
	least, most, used := c.live(window), c.live(window+rule.Micros(part)), c.used(c.random.IntN(2))
	switch {
	case used < least:
		return fmt.Errorf("%d units are forgotten: %d in the window, and the store counts %d", least-used, least, used)
	case used > most:
		return fmt.Errorf("the store counts %d units, %d more than were charged in the last window and a part", used, used-most)
	}
	if used > rule.DefaultLog {
		c.events["more than a log holds"]++
	}
	return nil
}

// noCliff plays about so many steps.
func noCliff(t *testing.T, steps int, begin func(c *cliff)) {
	t.Helper()
	if *playsFlag > 0 {
		steps = *playsFlag
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	events := map[string]int64{}
	for play := range uint64(max(1, steps/100)) {
		random := rand.New(rand.NewPCG(seed+play, 5))
		c := &cliff{
			t: t, random: random, events: events, clock: storetest.NewClock(rule.Micros(1_800_000_000e6 + random.Int64N(1e12))),
			window: []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour}[random.IntN(4)],
			key:    fmt.Sprint("cliff-", rand.Uint64()),
		}
		begin(c)
		for range 100 {
			err := c.step()
			if err == nil {
				err = c.check()
			}
			if err != nil {
				t.Fatalf("seed %d: %v\n  %s", seed+play, err, strings.Join(c.lines, "\n  "))
			}
		}
	}
	t.Logf("from seed %d on, %d steps, 0 units forgotten: %v", seed, steps, events)
	for _, event := range []string{"admitted", "refused", "refused and counted", "given back", "more than a log holds"} {
		if steps >= 1_000 && events[event] == 0 {
			t.Errorf("%s: never happened", event)
		}
	}
}

// over is two instances over one server, each of which may be restarted.
func over(open open) func(c *cliff) {
	return func(c *cliff) {
		c.restart = func(i int) { c.instances[i] = open(c.t, c.clock) }
		c.restart(0)
		c.restart(1)
	}
}

// TestCliffInMemory restarts the only process there is, as serve --state does after a crash: another one continues from a copy of the
// folder.
func TestCliffInMemory(t *testing.T) {
	t.Parallel()
	noCliff(t, 10_000, func(c *cliff) {
		dir := t.TempDir()
		var s *memstore.Store
		c.restart = func(int) {
			if s != nil {
				copied := filepath.Join(t.TempDir(), "copy")
				err := os.CopyFS(copied, os.DirFS(dir))
				for attempt := 1; errors.Is(err, os.ErrNotExist) && attempt < 10; attempt++ { // a checkpoint has removed a file meanwhile
					err = errors.Join(os.RemoveAll(copied), os.CopyFS(copied, os.DirFS(dir)))
				}
				if err := errors.Join(err, s.Close(), os.RemoveAll(dir)); err != nil {
					t.Fatal(err)
				}
				dir = copied
			}
			s = kit.Must(memstore.Open(dir, memstore.Options{Now: c.clock.Now}))(t)
			c.instances = [2]store.Store{s, s}
		}
		t.Cleanup(func() { _ = s.Close() })
		c.restart(0)
	})
}
