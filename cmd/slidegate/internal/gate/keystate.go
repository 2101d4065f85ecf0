package gate

import (
	"context"
	"fmt"
	"strconv"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/store"
)

// KeyState is the result of State: what the store keeps of a key under the limits that decide it. It is a plain value, made for JSON. Show
// it only to operators who may see keys.
type KeyState struct {
	Policy   string           `json:"policy"`
	Key      string           `json:"key"`              // as requests have it
	Prefix   bool             `json:"prefix,omitempty"` // Key is a prefix, whose addresses have keys of their own: only rulings are about it
	By       policy.By        `json:"by"`               // what decides; the fields from here to Plan are those of an Explanation
	Ruling   *rulings.Ruling  `json:"ruling,omitempty"`
	List     string           `json:"list,omitempty"`
	Override string           `json:"override,omitempty"`
	Plan     string           `json:"plan,omitempty"`
	Penalty  rule.Micros      `json:"penalty_us,omitempty"` // for how long the penalty still lasts, whatever is left of the limits
	Limits   []LimitState     `json:"limits"`
	History  []rulings.Ruling `json:"history"` // the changes of rulings about the key, the newest first
}

// LimitState is what the store keeps of a key under one limit. Times are in microseconds since 1970, by the store's clock.
type LimitState struct {
	Text       string       `json:"text"` // as slidegate.ParseLimit reads it
	Name       string       `json:"name,omitempty"`
	Quota      int64        `json:"quota"`
	Capacity   int64        `json:"capacity"`  // the burst of a token bucket, otherwise the quota
	Algorithm  string       `json:"algorithm"` // default if the limit names none
	Window     rule.Micros  `json:"window_us"`
	Now        rule.Micros  `json:"now"`
	Form       string       `json:"form"`  // log, parts, bucket or slots
	Units      []StateUnits `json:"units"` // the oldest first; those that no longer count are left out
	Holds      []StateHold  `json:"holds"` // the one that ends first first
	Used       int64        `json:"used"`  // what counts of the units, and what is held
	Remaining  int64        `json:"remaining"`
	RetryAfter *rule.Micros `json:"retry_after_us"` // of the cost; null means never
	ResetAfter rule.Micros  `json:"reset_after_us"`
}

// StateUnits is units that were charged at one time or in one part; see rule.Charged.
type StateUnits struct {
	From   rule.Micros `json:"from"`
	To     rule.Micros `json:"to"` // equal to From if that is the very time
	Units  int64       `json:"units"`
	Counts int64       `json:"counts"`       // how many of them count now
	Frees  rule.Micros `json:"frees"`        // from when on none of them counts
	ID     string      `json:"id,omitempty"` // of a slot: whose it is
}

// StateHold is what one reservation holds.
type StateHold struct {
	ID    string      `json:"id"`
	Units int64       `json:"units"`
	Ends  rule.Micros `json:"ends"` // unless it is renewed
}

// State returns what the store keeps of a key, under the limits that decide a request, and what of a log of rulings is about it. Of a
// prefix, which has no counts of its own, it returns the ruling. It charges nothing and counts nothing. The error wraps ErrKey if no
// request can have the key, and store.ErrUnsupported if the store does not return states.
func (g *Gate) State(ctx context.Context, req Request, log []rulings.Ruling) (k KeyState, err error) {
	p, read, err := g.read(req.Policy, req.Key)
	switch {
	case err != nil:
		return k, err
	case read.Prefix.IsValid():
		return g.stateOfPrefix(p.Name, read.String(), log), nil
	}
	req.Key = read.Key
	s, part, err := g.part(req)
	if err != nil {
		return k, err
	}
	k, err = g.state(ctx, s, part)
	k.History = s.historyOf(&part, log)
	return k, err
}

// stateOfPrefix returns the ruling about a prefix, and what of a log is about it.
func (g *Gate) stateOfPrefix(policyName, prefix string, log []rulings.Ruling) KeyState {
	k := KeyState{Policy: policyName, Key: prefix, Prefix: true, Limits: []LimitState{}, History: []rulings.Ruling{}}
	if k.Ruling = ruled.Find(g.rulings(), policyName, prefix); k.Ruling != nil {
		k.By = policy.ByRuling
	}
	for i := range log {
		if log[i].Policy == policyName && log[i].Key == prefix {
			k.History = append(k.History, log[i])
		}
	}
	return k
}

// state returns what the store keeps of a part, without its history.
func (g *Gate) state(ctx context.Context, s *snapshot, part engine.Part) (k KeyState, err error) {
	e := g.route(s, &part)
	k = KeyState{Policy: e.Policy, Key: e.Key, By: e.By, Ruling: e.Ruling, List: e.List, Override: e.Override, Plan: e.Plan, Limits: []LimitState{}}
	applying, err := s.set.Applying(&part)
	if err != nil {
		return k, err
	}
	for i, limit := range applying.Bound {
		one, err := stateOf(ctx, g.store, applying.Limits[i], limit, part.Key, part.Cost)
		if err != nil {
			return k, err
		}
		k.Limits = append(k.Limits, one)
	}
	if applying.Penalty != nil {
		_, a, err := inspect(ctx, g.store, applying.Penalty, part.Key, 0)
		k.Penalty = a.RetryAfter
		return k, err
	}
	return k, nil
}

// stateOf returns what a store keeps of a key under one limit, and what it would answer to a cost of at least one unit.
func stateOf(ctx context.Context, st store.Store, limit slidegate.Limit, bound *store.Limit, key string, cost int64) (LimitState, error) {
	u, a, err := inspect(ctx, st, bound, key, max(cost, 1))
	l := bound.Rule()
	of := LimitState{
		Text: limit.String(), Name: limit.Name, Quota: l.Quota, Capacity: l.Capacity(), Algorithm: l.Algorithm.String(), Window: l.Window,
		Now: u.now, Form: forms[u.Kept], Units: []StateUnits{}, Holds: []StateHold{},
		Used: u.Used, Remaining: a.Remaining, RetryAfter: &a.RetryAfter, ResetAfter: a.ResetAfter,
	}
	if a.RetryAfter == rule.Never {
		of.RetryAfter = nil
	}
	for _, c := range u.Charged {
		units := StateUnits{From: c.From, To: c.To, Units: c.Units, Counts: c.Counts, Frees: c.Frees}
		if c.ID != 0 {
			units.ID = idText(c.ID)
		}
		of.Units = append(of.Units, units)
	}
	for _, h := range u.Held {
		of.Holds = append(of.Holds, StateHold{ID: idText(h.ID), Units: h.Units, Ends: h.Ends})
	}
	return of, err
}

// forms are how states are kept.
var forms = map[rule.Algorithm]string{
	rule.SlidingLog: "log", rule.SlidingWindow: "parts", rule.FixedWindow: "parts", rule.TokenBucket: "bucket", rule.InFlight: "slots",
}

// idText writes an ID in a form that JavaScript keeps.
func idText(id rule.ID) string { return strconv.FormatUint(uint64(id), 16) }

// usage is what counts in a state at the store's time.
type usage struct {
	rule.Usage
	now rule.Micros
}

// inspect returns what counts of a key under a limit, and the answer to a peek at the same time.
func inspect(ctx context.Context, st store.Store, limit *store.Limit, key string, cost int64) (u usage, a rule.Answer, err error) {
	inspector, ok := store.As[store.Inspector](st)
	if !ok {
		return u, a, fmt.Errorf("%w: the %s store does not return states", store.ErrUnsupported, st.Traits().Name)
	}
	state, now, err := inspector.Inspect(ctx, limit, "", key)
	if err != nil {
		return u, a, err
	}
	if limit.Rule().Algorithm == rule.InFlight {
		cost = min(cost, 1)
	}
	var answers [1]rule.Answer
	rule.Decide(rule.Peek, []rule.Item{{Limit: limit.Rule(), State: &state, Cost: cost}}, now, answers[:])
	return usage{limit.Rule().Usage(&state, now), now}, answers[0], nil
}

// historyOf returns the changes in a log that are about the key of a part. A change whose key the policy no longer reads is about the key
// that it names.
func (s *snapshot) historyOf(part *engine.Part, log []rulings.Ruling) []rulings.Ruling {
	p, found := s.order[part.Policy], []rulings.Ruling{}
	for i := range log {
		if log[i].Policy != p.Name {
			continue
		}
		read, err := s.set.ReadKey(p.index, log[i].Key)
		if err != nil && log[i].Key == part.Key || err == nil && read.Matches(part.Key) {
			found = append(found, log[i])
		}
	}
	return found
}
