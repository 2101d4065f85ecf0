package model_test

import (
	"math/rand/v2"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/model"
)

// game is a script. Its steps hold random numbers instead of costs and times: what they mean depends on the state that they meet, so a
// script stays valid when steps are left out.
type game struct {
	seed   uint64
	tilt   tilt
	start  model.Micros
	limits [][]slidegate.Limit // for each limit, its plans: other quotas and choices at the same address
	steps  []step
}

// tilt is what a game is about.
type tilt struct {
	Steps int
	Back  bool // the clock may step back
	Huge  bool // quotas and costs up to the largest
	Slots bool // the first limit is in-flight
}

type step struct {
	kind kind
	r    [8]uint64
}

// pick returns one of n numbers, by the i-th random number of the step.
func (s *step) pick(i int, n int) int { return int(s.r[i] % uint64(n)) }

type kind int

const (
	ofLimiter kind = iota // a call of the limiter's limits
	ofClaims              // a call of For
	reserve
	settle
	renew
	changePlan
	forward
	jump
	back
	story // reserve, change the plan, use up what is left, settle, and look
	prove // go to the time of the last refusal's RetryAfter, and try a microsecond earlier and then
)

var kinds = []struct {
	kind   kind
	weight int
}{
	{ofLimiter, 20}, {ofClaims, 20}, {reserve, 12}, {settle, 18}, {renew, 4}, {changePlan, 6},
	{forward, 12}, {jump, 2}, {back, 3}, {story, 3}, {prove, 3},
}

var tilts = []tilt{
	{Steps: 80}, {Steps: 80, Back: true}, {Steps: 80, Slots: true}, {Steps: 80, Slots: true, Back: true}, {Steps: 60, Huge: true, Back: true},
	{Steps: 300},
}

func drawGame(seed uint64) *game {
	opts := tilts[seed%uint64(len(tilts))]
	random := rand.New(rand.NewPCG(seed, 7))
	g := &game{seed: seed, tilt: opts}
	g.start = time.Date(2001+random.IntN(60), 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() + random.Int64N(366*86_400*1e6)
	for i := range 1 + random.IntN(3) {
		g.limits = append(g.limits, drawPlans(random, string(rune('a'+i)), opts, opts.Slots && i == 0))
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	for range opts.Steps {
		s, at := step{}, random.IntN(sum)
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				s.kind = k.kind
				break
			}
		}
		if s.kind == back && !opts.Back {
			s.kind = forward
		}
		for i := range s.r {
			s.r[i] = random.Uint64()
		}
		g.steps = append(g.steps, s)
	}
	return g
}

// windows are lengths of a part, in microseconds.
var windows = []model.Micros{1_000, 1_003, 250_000, 1e6, 10e6, 60e6, 61e6, 3600e6, 86_400e6, 30 * 86_400e6}

// drawPlans draws limits of one address.
func drawPlans(random *rand.Rand, name string, opts tilt, slots bool) []slidegate.Limit {
	shape := slidegate.Limit{Name: name}
	part := windows[random.IntN(len(windows))]
	algorithm := random.IntN(6)
	if slots {
		algorithm = 6
	}
	switch algorithm {
	case 0:
		shape.Algorithm = slidegate.SlidingLog
	case 1:
		shape.Algorithm, shape.Segments = slidegate.SlidingWindow, []int{0, 2, 3, 6, 60}[random.IntN(5)]
		shape.Anchor = []rule.Anchor{rule.AnchorClock, slidegate.AnchorFirst}[random.IntN(2)]
	case 2:
		shape.Algorithm = slidegate.FixedWindow
		shape.Anchor = []rule.Anchor{rule.AnchorClock, slidegate.AnchorFirst}[random.IntN(2)]
	case 3:
		shape.Algorithm = slidegate.TokenBucket
	case 4: // the default
	case 5:
		shape.Calendar = []rule.Period{rule.Day, rule.Week, rule.Month, rule.Year}[random.IntN(4)]
		shape.Zone = zones[random.IntN(len(zones))]
	case 6:
		shape.Algorithm = slidegate.InFlight
	}
	if shape.Calendar == 0 {
		shape.Window = time.Duration(part*max(1, int64(shape.Segments))) * time.Microsecond
	}
	var plans []slidegate.Limit
	quota := drawQuota(random, opts)
	for len(plans) < 4 {
		if plan := drawPlan(random, shape, quota, opts); adapter.Check(plan) == nil {
			plans = append(plans, plan)
		}
		quota = max(1, quota/([]int64{1, 1, 10, 100}[random.IntN(4)]))
	}
	random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	return plans
}

var zones = []string{
	"", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Havana", "Asia/Beirut", "Pacific/Apia",
	"Atlantic/Azores", "America/Santiago", "Africa/Cairo", "Pacific/Kiritimati", "America/St_Johns",
}

func drawQuota(random *rand.Rand, opts tilt) int64 {
	if opts.Huge && random.IntN(2) == 0 {
		return 1 + random.Int64N(1<<random.IntN(53))
	}
	switch random.IntN(6) {
	case 0:
		return 1 + random.Int64N(3)
	case 1:
		return 50 + random.Int64N(300)
	case 2:
		return 1000
	default:
		return 1 + random.Int64N(30)
	}
}

// drawPlan draws a limit of a shape, with a quota around a given one.
func drawPlan(random *rand.Rand, shape slidegate.Limit, quota int64, opts tilt) slidegate.Limit {
	plan := shape
	plan.Quota = max(1, quota+random.Int64N(3)-1)
	switch {
	case shape.Algorithm == slidegate.TokenBucket:
		quota = min(quota, 1<<44) // Redis takes buckets of up to 2^48-1
		plan.Quota = min(plan.Quota, quota)
		plan.Burst = []int64{0, 0, 1, quota * 10, quota / 2, 5, 1000}[random.IntN(7)]
	case shape.Algorithm == slidegate.SlidingWindow:
		plan.Overlap = []rule.Overlap{rule.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole}[random.IntN(3)]
	case shape.Algorithm == slidegate.InFlight:
		plan.Quota = min(plan.Quota, 12)
		return plan
	}
	if random.IntN(4) == 0 {
		plan.CountRefused = true
	}
	if shape.Algorithm == slidegate.SlidingLog && plan.Quota > 2000 {
		plan.Quota %= 2000
	}
	return plan
}

// forwardOnly takes out the steps back in time.
func (g *game) forwardOnly() {
	for i := range g.steps {
		if g.steps[i].kind == back {
			g.steps[i].kind = forward
		}
	}
}
