package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// decider decides calls by policies. Servers and clients share it.
type decider struct {
	set        *engine.Set
	policies   []*compiled
	client     *clientip.Source
	group      func(context.Context, string) string
	onDecision func(context.Context, Event)
	items      *reply.Items // nil unless SendRemaining is set
}

// newDecider compiles policies. Those without a key get the given one. Grouped is whether calls have a group.
func newDecider(limiter *slidegate.Limiter, given []Policy, key Key, opts engine.Options, sendRemaining, grouped bool) (*decider, error) {
	d := &decider{}
	if len(given) == 0 {
		given = []Policy{{}}
	}
	var rules []engine.Spec
	var errs error // all errors together
	for i, one := range given {
		p, err := newPolicy(one, i, key)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("grpclimit: policy %q: %w", one.Name, err))
		}
		d.policies, rules = append(d.policies, p), append(rules, p.rules())
	}
	if sendRemaining {
		d.items, opts.Prepare = new(reply.Items), checkNames
	}
	var err error
	if d.set, err = engine.New(limiter, rules, opts); err == nil {
		// One call for each Match is enough, because no other call has more policies.
		err = d.set.CheckTogether(len(d.policies), func(made, other int) bool {
			p := d.policies[other]
			return p.Skip == nil && p.Plan == nil && p.matches(d.policies[made].Match)
		}, d.sameKey(grouped))
	}
	if err != nil {
		errs = errors.Join(errs, fmt.Errorf("grpclimit: %w", err))
	}
	if errs != nil {
		return nil, errs
	}
	for i, p := range d.policies {
		if p.slots = d.set.Holds(i); d.set.HasSlots(i) && (p.PerMessage || p.PerReply) {
			errs = errors.Join(errs, fmt.Errorf("grpclimit: policy %q: %w: in-flight limits together with PerMessage or PerReply: a message "+
				"holds no slot; charge messages by another policy", p.Name, slidegate.ErrUnsupported))
		}
	}
	return d, errs
}

// sameKey returns a function that reports whether two policies count by the same key, or nil if calls have a group. Keys
// made by one function, such as those of two metadata fields, cannot be distinguished here: the first call under both
// policies gets the error.
func (d *decider) sameKey(grouped bool) func(policy, other int) bool {
	if grouped {
		return nil
	}
	return func(policy, other int) bool {
		return d.policies[policy].Key.SameFunc(d.policies[other].Key)
	}
}

// charges reports whether a policy charges calls of this method at this stage.
func (d *decider) charges(method string, at stage) bool {
	for _, p := range d.policies {
		if p.chargesAt(at) && p.matches(method) {
			return true
		}
	}
	return false
}

// matching appends the policies that apply to a call.
func (d *decider) matching(ctx context.Context, c *call, to []*compiled) []*compiled {
	for _, p := range d.policies {
		if p.chargesAt(c.stage) && p.matches(c.method) && (p.Skip == nil || !p.Skip(ctx, c.method)) {
			to = append(to, p)
		}
	}
	return to
}

// begin collects the parts of the policies that apply to a call.
func (d *decider) begin(ctx context.Context, c *call, matching []*compiled, waits bool) *engine.Transaction {
	r := d.set.Begin()
	for _, p := range matching {
		var part engine.Part
		p.part(ctx, c, d, &part)
		part.Hold = p.CostAfter != nil && c.stage == stageCall
		if waits {
			part.Wait = engine.WaitAsLongAsNecessary
		}
		r.Add(part)
	}
	return d.prepare(ctx, c, r)
}

// prepare completes a request that has its parts. A call holds slots while it lasts, a message does not.
func (d *decider) prepare(ctx context.Context, c *call, r *engine.Transaction) *engine.Transaction {
	r.Record = d.onDecision != nil
	if c.stage == stageCall {
		r.Slots = engine.SlotsHeld
	}
	if d.group != nil {
		r.Group = d.group(ctx, c.method)
	}
	return r
}

// address returns the client's address, for lists.
func (d *decider) address(ctx context.Context) netip.Addr {
	text := ""
	if addr := peerAddr(ctx); addr != nil {
		text = addr.String()
	}
	var lines []string
	if header := d.client.Header(); header != "" {
		lines = metadata.ValueFromIncomingContext(ctx, strings.ToLower(header))
	}
	addr, _ := d.client.AddrOf(text, lines)
	return addr
}

// renewSlots renews the slots and the units that an admitted call holds, until it is settled.
func (d *decider) renewSlots(ctx context.Context, c *call, r *engine.Transaction) {
	if !r.HoldsSlots() {
		return
	}
	method := c.method // so that c stays on the stack
	r.RenewSlots(ctx, func(v policy.Decision) {
		if d.onDecision != nil {
			d.onDecision(ctx, Event{Method: method, Decision: v})
		}
	})
}

// decide decides a call and fills event, and reports the decisions of shadow policies.
func (d *decider) decide(ctx context.Context, c *call, r *engine.Transaction, op rule.Op, event *Event) {
	*event = Event{Method: c.method}
	r.Decide(ctx, op, &event.Decision)
	for _, tried := range r.Trials() {
		d.onDecision(ctx, Event{Method: c.method, Decision: tried})
	}
}

// reportAll reports the decisions of the policies that decided a call together. A client may have decided to wait instead of
// refusing the call.
func (d *decider) reportAll(ctx context.Context, r *engine.Transaction, event *Event) {
	decided := r.Decided()
	if len(decided) == 0 {
		d.report(ctx, event)
	}
	for _, v := range decided {
		v.Refused = v.Refused && event.Refused
		d.report(ctx, &Event{Method: event.Method, Decision: v})
	}
}

// report reports a decision.
func (d *decider) report(ctx context.Context, event *Event) {
	if d.onDecision != nil && !event.Shadow {
		d.onDecision(ctx, *event)
	}
}

// admit makes the final decision on a call. It returns the refusal, if the call is refused; the request to settle when
// the call has ended, if a policy has a CostAfter; and the metadata about what is left, if any.
func (d *decider) admit(ctx context.Context, c *call) (refused *refusal, held *engine.Transaction, left metadata.MD) {
	var buffer [4]*compiled
	matching := d.matching(ctx, c, buffer[:0])
	event := Event{Method: c.method}
	switch {
	case len(matching) == 0:
		return nil, nil, nil
	case len(matching) == 1 && matching[0].decidesAlone(d):
		held = d.decideAlone(ctx, c, matching[0], &event)
	default:
		held = d.decideTogether(ctx, c, d.begin(ctx, c, matching, false), &event)
	}
	c.policy = event.Policy
	left = d.remaining(&event.Decision)
	if event.Refused {
		refused = refuse(ctx, &event.Decision)
		refused.left = left
	}
	if held != nil {
		d.renewSlots(ctx, c, held) // last, because nothing would end it if OnDecision panics
	}
	return refused, held, left
}

// decideAlone decides a call under one policy, which can be decided alone.
func (d *decider) decideAlone(ctx context.Context, c *call, p *compiled, event *Event) (held *engine.Transaction) {
	var part engine.Part
	p.part(ctx, c, d, &part)
	d.set.Decide(ctx, rule.Take, &part, &event.Decision)
	if c.stage == stageCall && event.Mistake && errors.Is(event.Err, policy.ErrSlots) { // because of its Plan
		r := d.set.Begin()
		r.Add(part)
		return d.decideTogether(ctx, c, d.prepare(ctx, c, r), event)
	}
	d.report(ctx, event)
	return nil
}

// decideTogether decides a call by a transaction. It returns the request if it has to be settled.
func (d *decider) decideTogether(ctx context.Context, c *call, r *engine.Transaction, event *Event) (held *engine.Transaction) {
	d.decide(ctx, c, r, rule.Take, event)
	d.reportAll(ctx, r, event)
	if !r.Held() {
		r.End()
		return nil
	}
	return r
}

// settle charges the actual cost of a call that has ended, and releases its slots.
func (d *decider) settle(ctx context.Context, c *call, held *engine.Transaction, result Result) {
	method := c.method // so that c stays on the stack
	held.Finish(ctx, func(index int, cost int64) int64 {
		if after := d.policies[index].CostAfter; after != nil {
			result.Cost = cost
			return after(ctx, method, result)
		}
		return cost
	}, d.reportUnsettled(ctx, method, c.policy))
}

// reportUnsettled returns a function that reports that a call could not be settled.
func (d *decider) reportUnsettled(ctx context.Context, method, name string) func(error) {
	return func(err error) {
		if d.onDecision != nil {
			d.onDecision(ctx, Event{Method: method, Decision: policy.Decision{Policy: name, Err: err}})
		}
	}
}
