package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/rule"
)

// Options configures a replay. Limits or Groups is required; the other fields are optional.
type Options struct {
	// Limits apply to every request, all of them together.
	Limits []slidegate.Limit
	// Groups are used instead of Limits to replay policies; they come from routing.Policies.
	Groups []routing.Group
	// Against are the groups of other policies, to which the same traffic is applied separately, to compare the two. In
	// the parts of requests, their numbers follow those of Groups.
	Against []routing.Group
	// Compare runs all algorithms on the same traffic, with the quotas and windows of Limits.
	Compare bool
	// Sweep lists quotas to try for the first limit.
	Sweep []int64
	// Suggest finds the smallest quota of the first limit that touches at most Percent of the keys. For a token bucket
	// it is one of the quotas of Sweep.
	Suggest bool
	Percent float64
	// Top is the number of most refused keys to report.
	Top int
	// Sort is how far out of order requests may be and still be sorted. 0 decides them in the order of the input.
	Sort time.Duration
	// Decisions receives each decision as a JSON line, in the order of the input; nil discards them.
	Decisions io.Writer
	// Progress is called now and then with the number of requests decided so far; it may be nil.
	Progress func(requests int64)
}

// Check returns an error that names the first invalid option and the fix.
func (o *Options) Check() error {
	groups := o.groups()
	if len(groups[0].Limits) == 0 {
		return invalid("Limits", "must not be empty; give at least one limit, such as 100/1m")
	}
	for _, group := range groups {
		if err := checkLimits(group.Limits); err != nil {
			return err
		}
	}
	for _, group := range o.Against {
		if err := checkLimits(group.Limits); err != nil {
			return err
		}
	}
	switch {
	case len(o.Against) > 0 && len(o.Groups) == 0:
		return invalid("Against", "policies can only be compared with policies, but Groups is empty")
	case len(o.Against) > 0 && o.Decisions != nil:
		return invalid("Against", "cannot be combined with Decisions; write the decisions of one file at a time")
	case o.Suggest && !(o.Percent >= 0 && o.Percent <= 100):
		return invalid("Percent", "must be a percentage of keys from 0 to 100, not %v", o.Percent)
	case o.Suggest && hasSeveralPolicies(groups):
		return invalid("Suggest", "a quota can only be suggested for one policy; choose one from the file, such as %s", groups[0].Policy)
	case len(o.Sweep) > 0 && hasSeveralPolicies(groups):
		return invalid("Sweep", "other quotas can only be tried for one policy; choose one from the file, such as %s", groups[0].Policy)
	case o.Suggest && groups[0].Limits[0].Algorithm == slidegate.TokenBucket && len(o.Sweep) == 0:
		return invalid("Suggest", "a token bucket refills at the rate of its quota, so a quota can only be chosen from a sweep; add one, such as 10..1000")
	case o.Top < 0:
		return invalid("Top", "must not be negative, got %d", o.Top)
	case !slices.IsSorted(o.Sweep) || len(slices.Compact(slices.Clone(o.Sweep))) < len(o.Sweep):
		return invalid("Sweep", "must be in ascending order without duplicates, not %v", o.Sweep)
	case o.Sort < 0:
		return invalid("Sort", "must not be negative, got %v", o.Sort)
	}
	return nil
}

// checkLimits returns an error if limits cannot be replayed together.
func checkLimits(limits []slidegate.Limit) error {
	if len(limits) > maxLimits {
		return invalid("Limits", "too many limits: %d; the maximum is %d", len(limits), maxLimits)
	}
	for i, limit := range limits {
		if err := adapter.Check(limit); err != nil {
			return invalid("Limits", "%w", reason(err))
		}
		if limit.Algorithm == slidegate.InFlight {
			return invalid("Limits", "%s: in-flight limits cannot be replayed, because replay does not know how long requests took; leave it out", limit)
		}
		for _, other := range limits[:i] {
			if limit == other {
				return invalid("Limits", "duplicate limit %s; remove one", limit)
			}
			if address(limit) == address(other) {
				return invalid("Limits", "%s and %s would share their counts; give them different names", other, limit)
			}
		}
	}
	return nil
}

// groups returns Groups, or Limits as the only group.
func (o *Options) groups() []routing.Group {
	if len(o.Groups) > 0 {
		return o.Groups
	}
	return onlyGroup(o.Limits)
}

// address returns the prefix of the addresses of a valid limit.
func address(limit slidegate.Limit) string {
	bound, _ := adapter.Bind("", limit)
	return bound.Prefix()
}

// replay is a replay in progress.
type replay struct {
	opts        *Options
	groups      []routing.Group
	feed        *feed
	exact       *exact // nil if not needed: the main run is exact itself
	main        *run
	line        timeline
	refused     refusals
	against     *against // nil without Against
	comparisons []*run
	sweep       []*run
	alone       []*run // the quotas of the sweep for the first limit alone, to suggest one of them
	demand      *demand
	spool       *spool
	out         *decisions

	found Findings
}

// Run replays the traffic through the limits and returns the findings. If ctx is done, or reading the traffic fails, it
// returns the findings so far, with Interrupted set, and the error. If there were no requests at all, the findings are
// nil.
func Run(ctx context.Context, lines traffic.Lines, opts Options) (*Findings, error) {
	r, err := prepare(lines, &opts)
	if err != nil {
		return nil, err
	}
	if r.spool != nil {
		defer r.spool.close()
	}
	err = r.firstPass(ctx)
	if r.feed.total.Requests == 0 {
		return nil, err
	}
	r.found.Interrupted = err != nil
	r.collect()
	return &r.found, errors.Join(err, r.secondPass(ctx))
}

// prepare sets up everything that processes the traffic.
func prepare(lines traffic.Lines, opts *Options) (r *replay, err error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	groups := opts.groups()
	r = &replay{opts: opts, groups: groups}
	r.feed = newFeed(lines, len(groups), len(groups)+len(opts.Against), rule.Micros(opts.Sort.Microseconds()), opts.Decisions != nil)
	if r.main, err = newRun("", groups, true); err != nil {
		return nil, err
	}
	if len(opts.Against) > 0 {
		if r.against, err = newAgainst(len(groups), opts.Against); err != nil {
			return nil, err
		}
	}
	if opts.Compare || !r.main.exact {
		r.exact = newExact(r.main.groups)
	}
	if opts.Compare {
		r.comparisons, r.found.NotCompared = comparisonRuns(groups)
	}
	if r.sweep, err = sweepRuns(groups, opts.Sweep); err != nil {
		return nil, err
	}
	first := groups[0].Limits[:1]
	switch {
	case !opts.Suggest:
	case first[0].Algorithm != slidegate.TokenBucket:
		r.demand = newDemand(r.main.groups[0].lanes[0].limit)
	case len(groups[0].Limits) == 1 && len(groups) == 1:
		r.alone = r.sweep
	default:
		if r.alone, err = sweepRuns(onlyGroup(first), opts.Sweep); err != nil {
			return nil, err
		}
	}
	if opts.Decisions != nil {
		r.out = newDecisions(opts.Decisions)
	}
	if opts.Suggest {
		r.spool, err = newSpool()
	}
	return r, err
}

// firstPass reads the traffic once.
func (r *replay) firstPass(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go r.feed.run(ctx)
	workers := newWorkers(r.sideTasks())
	defer workers.close()
	var failed error
	var decided int64
	for b := range r.feed.full {
		if failed == nil {
			requests := b.requests
			if r.against != nil {
				requests = r.against.split(b.requests)
			}
			if r.exact != nil {
				r.exact.each(requests)
			}
			workers.begin(requests)
			failed = r.decide(b, requests)
			workers.wait()
			if r.against != nil {
				r.against.each(b.requests)
			}
			if failed != nil {
				stop()
			}
		}
		decided += int64(len(b.requests))
		r.feed.recycle(b)
		if r.opts.Progress != nil {
			r.opts.Progress(decided)
		}
	}
	if r.out != nil {
		if err := r.out.flush(); failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return failed
	}
	return r.feed.err
}

// decide applies the replayed limits to the requests of a batch.
func (r *replay) decide(b *batch, requests []request) error {
	if r.out != nil {
		r.out.addLines(b.lines)
	}
	r.main.each(requests, func(q *request, allowed bool) {
		bucket := r.line.at(q.at)
		if allowed {
			bucket.Admitted++
		} else {
			bucket.Refused++
			r.refused.add(q.note, r.main.blame)
		}
		if r.against != nil {
			r.against.now = append(r.against.now, runDecision{!allowed, r.main.blame})
		}
		if r.out != nil {
			r.out.record(q.seq, r.main.answers)
		}
	})
	if r.out != nil && r.out.err != nil {
		return r.out.err
	}
	if r.spool != nil {
		return r.spool.write(requests)
	}
	return nil
}

// sideTasks returns the tasks that process the traffic beside the main run, independently of one another.
func (r *replay) sideTasks() (tasks []func([]request)) {
	for _, other := range slices.Concat(r.comparisons, r.sweep) {
		tasks = append(tasks, func(requests []request) {
			other.each(requests, func(*request, bool) {})
		})
	}
	if len(r.alone) > 0 && r.alone[0] != r.sweep[0] {
		for _, other := range r.alone {
			tasks = append(tasks, forFirstGroup(func(one []request) { other.decide(one) }))
		}
	}
	if r.demand != nil {
		tasks = append(tasks, forFirstGroup(func(one []request) { r.demand.add(&one[0]) }))
	}
	return tasks
}

// forFirstGroup returns a task that calls do with each request of the first group alone, without its other parts.
func forFirstGroup(do func(one []request)) func([]request) {
	return func(requests []request) {
		for i := range requests {
			if requests[i].group == 0 {
				do(requests[i : i+1])
			}
		}
	}
}

// collect gathers the findings of the first pass.
func (r *replay) collect() {
	f := &r.found
	names := r.feed.keys
	f.Traffic = r.feed.total
	f.Outcome = r.main.outcome(names, r.opts.Top)
	for i, key := range r.main.worst(r.opts.Top) {
		f.Outcome.TopRefused[i].Profile = r.refused.key(key)
	}
	f.Refused = r.refused.all.profile(topValues)
	if r.against != nil {
		f.Against = r.against.findings(names, r.groups, r.opts)
	}
	f.Policies = r.main.policies()
	f.Timeline = r.line.findings()
	for _, other := range r.comparisons {
		f.Compare = append(f.Compare, other.outcome(names, 0))
	}
	if len(r.sweep) > 0 {
		f.Sweep = sweepFindings(r.sweep)
	}
}

// secondPass reads the spool to try the suggestion, which is known only after the whole traffic.
func (r *replay) secondPass(ctx context.Context) error {
	if r.spool == nil || r.found.Interrupted && ctx.Err() != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	trial, err := r.trial()
	if err != nil {
		return err
	}
	var read int64
	err = r.spool.each(func(q *request) error {
		trial.decide(q)
		if read++; read%batchSize == 0 {
			return ctx.Err()
		}
		return nil
	})
	if err == nil {
		r.found.Suggestion = trial.findings(r.feed.keys, r.opts)
	}
	return err
}

// invalid returns the error of an option.
func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "replay", Option: option, Err: fmt.Errorf(format, args...)}
}

// reason returns the error without the name of the package, if it is about a limit.
func reason(err error) error {
	var wrong *slidegate.LimitError
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}
