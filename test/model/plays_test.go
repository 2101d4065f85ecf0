package model_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

var (
	playsFlag = flag.Int("plays", 0, "how many decisions to compare on each store; 0 means a few seconds' worth")
	seedFlag  = flag.Uint64("seed", 0, "the seed of the first game; 0 means a random seed")
)

// open opens a store with a clock.
type open func(t testing.TB, clock *storetest.Clock) store.Store

// setting prepares a game: the player, and what it plays on.
type setting func(t testing.TB, g *game, namespace string) (*player, error)

// on is the setting of a single store.
func on(open open) setting {
	return func(t testing.TB, g *game, namespace string) (*player, error) {
		clock := storetest.NewClock(0)
		return newPlayer(g, open(t, clock), clock, namespace)
	}
}

// run plays a game, and returns the player after the first difference.
func run(t testing.TB, in setting, g *game) (p *player, err error) {
	if p, err = in(t, g, fmt.Sprint("n", rand.Uint64())); err != nil {
		return p, err
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return p, p.play()
}

// plays compares about so many decisions with the model. Events must happen, in addition to wanted.
func plays(t *testing.T, decisions int, in setting, events ...string) {
	t.Helper()
	if *playsFlag > 0 {
		decisions = *playsFlag
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	t.Logf("the seed is %d", seed)
	begun, games, compared, counts := time.Now(), 0, 0, map[string]int{}
	for compared < decisions {
		g := drawGame(seed + uint64(games))
		p, err := run(t, in, g)
		if err != nil {
			t.Fatalf("game %d: %v\n%s", g.seed, err, shortest(t, in, g))
		}
		games, compared = games+1, compared+max(1, p.decisions)
		for event, n := range p.events {
			counts[event] += n
		}
	}
	t.Logf("%d decisions in %d games are as in the model, in %v: %v", compared, games, time.Since(begun).Round(time.Second), counts)
	for _, event := range append(events, wanted...) {
		if compared >= 10_000 && counts[event] == 0 {
			t.Errorf("%s: never happened", event)
		}
	}
}

// wanted are events without which a comparison would mean little.
var wanted = []string{
	"admitted", "refused", "never", "plan changed", "proved", "gave back", "charged more", "repeated", "settled late", "renewed", "slot lost",
}

// shortest leaves out steps of a game as long as it fails, and returns what is left.
func shortest(t testing.TB, in setting, g *game) string {
	fails := func(steps []step) (*player, error) {
		less := *g
		less.steps = steps
		return run(t, in, &less)
	}
	steps := g.steps
	for size := max(1, len(steps)/2); size >= 1; size /= 2 {
		for i := 0; i < len(steps); {
			less := slices.Delete(slices.Clone(steps), i, min(len(steps), i+size))
			if _, err := fails(less); err != nil {
				steps = less
			} else {
				i += size
			}
		}
	}
	p, err := fails(steps)
	text := fmt.Sprintf("%d steps are enough, from %d:\n", len(steps), g.start)
	for _, plans := range g.limits {
		text += fmt.Sprintf("  limit %v\n", plans)
	}
	return text + "  " + strings.Join(p.lines, "\n  ") + fmt.Sprintf("\n%v", err)
}
