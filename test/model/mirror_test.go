package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/model"
)

// mirror is a store at the end of a line that can be cut. It carries out in the model whatever arrives, and compares the answers.
type mirror struct {
	store.Store
	mu      sync.Mutex
	world   *model.World
	state   lineState
	arrived func(r *store.Request, answered bool) // called for each request that was carried out
	differs error
}

type lineState int

const (
	up     lineState = iota
	cut              // nothing arrives
	deafen           // requests arrive, but the answers are lost
)

var errLine = errors.New("the line is cut")

// Traits are those of a store at a distance: layers treat a store without round trips as one that cannot fail.
func (m *mirror) Traits() store.Traits {
	traits := m.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

func (m *mirror) Apply(ctx context.Context, batch []store.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == cut {
		return failAll(batch)
	}
	if err := m.Store.Apply(ctx, batch); err != nil {
		return err
	}
	m.world.Advance(time.Now().UnixMicro() - m.world.Now)
	for i := range batch {
		if err := m.compare(&batch[i]); err != nil && m.differs == nil {
			m.differs = fmt.Errorf("%v of %d charges: %w", batch[i].Op, len(batch[i].Charges), err)
		}
		m.arrived(&batch[i], m.state == up)
	}
	if m.state == deafen {
		return failAll(batch)
	}
	return nil
}

func (m *mirror) difference() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.differs
}

func failAll(batch []store.Request) error {
	for i := range batch {
		batch[i].Err = errLine
	}
	return errLine
}

var opNames = map[rule.Op]model.Op{
	rule.Take: model.Take, rule.TakeUpTo: model.UpTo, rule.Peek: model.Peek, rule.Charge: model.Charge, rule.GiveBack: model.Refund,
	rule.Reset: model.Reset, rule.Renew: model.Renew,
}

// compare carries out a request in the model.
func (m *mirror) compare(r *store.Request) error {
	holder := fmt.Sprint(r.ID)
	var parts []model.Part
	for _, c := range r.Charges {
		limit := model.Resolve(adapter.Unbind(c.Limit))
		parts = append(parts, model.Part{Limit: limit, Key: c.Key, Cost: c.Cost, At: model.Micros(c.At), Used: c.Used})
	}
	if r.Op == rule.Settle {
		want, err := m.world.Settle(r.Group, holder, parts, r.Answers[0].Flags&rule.Repeated != 0)
		var got []int64
		for _, a := range r.Answers {
			got = append(got, a.Granted)
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("got %d returned, want %d", got, want)
		}
		return err
	}
	wants := m.world.Decide(opNames[r.Op], r.Group, holder, parts)
	if r.Op == rule.Reset || r.Op == rule.Renew {
		return nil
	}
	for i := range wants {
		if err := wants[i].Check(r.Answers[i]); err != nil {
			return err
		}
	}
	return nil
}
