package gate

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// AllowBatch is Allow for many asks at once, in one call to the store; if policies of different failure modes are among
// them, in one call for each mode. The asks are decided in their order where they share a key, each by itself, and all by
// the same policies, whatever is reloaded meanwhile. Verdicts and errs must be as long as asks, and are filled.
func (g *Gate) AllowBatch(ctx context.Context, asks []Ask, verdicts []Verdict, errs []error) {
	if len(verdicts) < len(asks) || len(errs) < len(asks) {
		panic(fmt.Sprintf("gate: AllowBatch: %d asks need as many verdicts and errs, not %d and %d",
			len(asks), len(verdicts), len(errs)))
	}
	s := g.now.Load()
	var jobs [modes]*job
	for i := range asks {
		verdicts[i], errs[i] = Verdict{}, nil
		p, err := s.find(asks[i].Policy)
		if err == nil {
			err = checkCost(asks[i].Cost)
		}
		if err != nil {
			errs[i] = err
			continue
		}
		r, by := p.route(asks[i].Key, asks[i].Address)
		if by != ByLimits {
			p.listed(&verdicts[i], by, &asks[i], asks[i].Cost)
			continue
		}
		if jobs[p.mode] == nil {
			jobs[p.mode] = g.newJob()
		}
		jobs[p.mode].ask(i, p, r, &asks[i])
	}
	for mode, j := range jobs {
		if j != nil {
			j.apply(ctx, g.stores[mode])
			j.answerBatch(asks, verdicts, errs)
			g.end(j)
		}
	}
}

// ask joins an ask of a batch.
func (j *job) ask(i int, p *policy, r *rules, ask *Ask) {
	it := part{place: i, policy: p, rules: r, candidate: -1}
	it.request = j.begin(rule.Take)
	j.add(r.bound, ask.Key, ask.Cost)
	if p.candidate != nil && r == p.plain && ask.Cost > 0 {
		it.candidate = j.begin(rule.Take)
		j.add(p.candidate, ask.Key, ask.Cost)
	}
	j.parts = append(j.parts, it)
}

// answerBatch hands out what the store said.
func (j *job) answerBatch(asks []Ask, verdicts []Verdict, errs []error) {
	for i := range j.parts {
		it := &j.parts[i]
		ask, v, live := &asks[it.place], &verdicts[it.place], &j.requests[it.request]
		if errs[it.place] = live.Err; live.Err == nil {
			v.Decision = slidegate.Combine(live)
		}
		it.policy.decided(v, it.rules, ask, ask.Cost, live.Err)
		if live.Err == nil && it.candidate >= 0 {
			it.policy.countCandidate(ask.Key, &j.requests[it.candidate], !v.Refused)
		}
	}
}
