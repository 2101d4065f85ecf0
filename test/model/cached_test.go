package model_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/model"
)

// somewhere returns the limiter through which something is given back: this process's or, if there is one, another's.
func (p *player) somewhere(s *step) *slidegate.Limiter {
	if p.elsewhere == nil || s.pick(5, 4) > 0 {
		return p.base
	}
	p.changed = p.world.Now
	p.note("elsewhere:")
	return p.elsewhere
}

// checkCached checks a refusal from a cache: the model refuses too, and still does just before RetryAfter has passed. After something
// was given back elsewhere, a refusal may be out of date for a while.
func (p *player) checkCached(c *call, got slidegate.Decision) error {
	p.events["cached"]++
	if got.Allowed {
		return errors.New("a cache has admitted something")
	}
	if p.elsewhere != nil && p.world.Now-p.changed <= p.maxAge {
		p.events["cached after a change elsewhere"]++
		return nil
	}
	admits := func(op model.Op) bool {
		all := true
		for _, want := range p.world.Decide(op, c.group, "", c.parts) {
			all = all && want.Allowed
		}
		return all
	}
	if admits(model.Peek) {
		return errors.New("a cache refuses what the model admits")
	}
	if got.RetryAfter > 0 && got.RetryAfter != slidegate.Never {
		now := p.world.Now
		defer func() { p.world.Now = now }()
		if p.world.Now += got.RetryAfter.Microseconds() - 1; admits(model.Peek) {
			return fmt.Errorf("RetryAfter of a cached refusal is too late")
		}
	}
	return nil
}

// A refusal from the cache is one that the store would make, as long as nothing is given back elsewhere.
func TestRefusals(t *testing.T) {
	for name, maxAge := range map[string]time.Duration{"alone": -1, "with another process": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plays(t, 20_000, func(t testing.TB, g *game, namespace string) (*player, error) {
				g.forwardOnly()
				clock := storetest.NewClock(0)
				inner := memory(t, clock)
				cache := refusals.New(inner, refusals.Options{
					MaxAge: maxAge, MaxKeys: 1024, Now: func() time.Duration { return time.Duration(clock.Now()-rule.Micros(g.start)) * time.Microsecond },
				})
				p, err := newPlayer(g, cache, clock, namespace)
				if err == nil && maxAge > 0 {
					p.maxAge = maxAge.Microseconds()
					p.elsewhere, err = slidegate.New(slidegate.Namespace(inner, namespace), p.base.Limits()...)
				}
				return p, err
			}, "cached")
		})
	}
}
