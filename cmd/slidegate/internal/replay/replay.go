package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/config"
)

// Options say what a replay is to find out. Limits are required; the zero value of all else asks for nothing more.
type Options struct {
	// Limits are what every request faces, all at once.
	Limits []slidegate.Limit
	// Groups are, in place of Limits, what the keys of policies face; facing.Policies has them.
	Groups []facing.Group
	// Against are other groups that the same traffic faces, apart from Groups, to compare the two. The parts of requests that
	// are theirs have groups that follow those of Groups.
	Against []facing.Group
	// Compare runs all algorithms on the same traffic, with the quotas and windows of Limits.
	Compare bool
	// Sweep holds the quotas that the first limit is tried with.
	Sweep []int64
	// Suggest asks for the smallest quota of the first limit that touches at most Percent of the keys. With a token bucket
	// it is taken from the quotas of Sweep.
	Suggest bool
	Percent float64
	// Top is how many of the most denied keys are named, and Trails how many of them are drawn over time.
	Top    int
	Trails int
	// Sort is how far out of order the traffic may be and still be decided in order. 0 decides it in the order it has.
	Sort time.Duration
	// Decisions is where each decision is written as a JSON line, in the order of the input; nil writes none.
	Decisions io.Writer
	// Progress is called now and then with how many requests have been decided; nil is not.
	Progress func(requests int64)
}

// Check returns an error that names what cannot be asked for, and the fix.
func (o *Options) Check() error {
	groups := o.groups()
	if len(groups[0].Limits) == 0 {
		return invalid("Limits", "there is none; give at least one, such as 100/1m")
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
		return invalid("Against", "policies are compared with policies, and there are none in Groups")
	case len(o.Against) > 0 && o.Decisions != nil:
		return invalid("Against", "decisions are those of one file; write them without the other")
	case o.Suggest && !(o.Percent >= 0 && o.Percent <= 100):
		return invalid("Percent", "%v is not a percentage of keys from 0 to 100", o.Percent)
	case o.Suggest && several(groups):
		return invalid("Suggest", "a quota is suggested for one policy; choose one of the file, such as %s", groups[0].Policy)
	case len(o.Sweep) > 0 && several(groups):
		return invalid("Sweep", "other quotas are tried for one policy; choose one of the file, such as %s", groups[0].Policy)
	case o.Suggest && groups[0].Limits[0].Algorithm == slidegate.TokenBucket && len(o.Sweep) == 0:
		return invalid("Suggest", "a token bucket refills by its quota, so a quota can only be picked from tried ones: add a sweep, such as 10..1000")
	case o.Top < 0:
		return invalid("Top", "%d is not a number of keys", o.Top)
	case o.Trails < 0:
		return invalid("Trails", "%d is not a number of keys", o.Trails)
	case !slices.IsSorted(o.Sweep) || len(slices.Compact(slices.Clone(o.Sweep))) < len(o.Sweep):
		return invalid("Sweep", "%v does not rise: write smaller quotas first, and each once", o.Sweep)
	case o.Sort < 0:
		return invalid("Sort", "%v is not a length of time", o.Sort)
	}
	return nil
}

// checkLimits returns an error if limits cannot be faced at once.
func checkLimits(limits []slidegate.Limit) error {
	if len(limits) > maxLimits {
		return invalid("Limits", "%d at once are too many; the most is %d", len(limits), maxLimits)
	}
	for i, limit := range limits {
		if err := limit.Check(); err != nil {
			return invalid("Limits", "%w", reason(err))
		}
		if limit.Algorithm == slidegate.InFlight {
			return invalid("Limits", "%s: slots cannot be replayed, because replay does not know how long requests took; leave it out", limit)
		}
		for _, other := range limits[:i] {
			if limit == other {
				return invalid("Limits", "%s is given twice; leave one out", limit)
			}
			if address(limit) == address(other) {
				return invalid("Limits", "%s and %s would be charged to the same counts: give them different names", other, limit)
			}
		}
	}
	return nil
}

// groups returns what keys face.
func (o *Options) groups() []facing.Group {
	if len(o.Groups) > 0 {
		return o.Groups
	}
	return onlyGroup(o.Limits)
}

// address returns what a limit's counts belong to, of a limit that can be.
func address(limit slidegate.Limit) string {
	bound, _ := slidegate.Bind("", limit)
	return bound.Prefix()
}

// replay is a replay under way.
type replay struct {
	opts   *Options
	groups []facing.Group
	feed   *feed
	exact  *exact // nil if there is nothing to hold against it: it would be held against itself
	main   *run
	line   timeline
	denied *denials
	other  *against // nil if there is nothing to compare with
	rivals []*run
	sweep  []*run
	alone  []*run // the same quotas of the first limit without the others, to suggest one of them
	demand *demand
	spool  *spool
	out    *decisions

	found Findings
}

// Run lets the traffic through the limits and tells what happened. When ctx ends, or the traffic cannot be read further, it
// returns what has been found out until then, with Interrupted set, and the error. If there was no request at all, there are
// no findings.
func Run(ctx context.Context, lines traffic.Lines, opts Options) (*Findings, error) {
	r, err := prepare(lines, &opts)
	if err != nil {
		return nil, err
	}
	if r.spool != nil {
		defer r.spool.close()
	}
	err = r.pass(ctx)
	if r.feed.total.Requests == 0 {
		return nil, err
	}
	r.found.Interrupted = err != nil
	r.collect()
	return &r.found, errors.Join(err, r.again(ctx))
}

// prepare makes everything ready that the traffic goes through.
func prepare(lines traffic.Lines, opts *Options) (r *replay, err error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	groups := opts.groups()
	r = &replay{opts: opts, groups: groups}
	r.feed = newFeed(lines, len(groups), len(groups)+len(opts.Against), slidegate.Micros(opts.Sort.Microseconds()), opts.Decisions != nil)
	r.denied = newDenials(r.feed.notes)
	if r.main, err = newRun("", groups, true); err != nil {
		return nil, err
	}
	if len(opts.Against) > 0 {
		if r.other, err = newAgainst(len(groups), opts.Against, r.feed.notes); err != nil {
			return nil, err
		}
	}
	if opts.Compare || !r.main.itself {
		r.exact = newExact(r.main.groups)
	}
	if opts.Compare {
		r.rivals, r.found.NotCompared = compared(groups)
	}
	if r.sweep, err = swept(groups, opts.Sweep); err != nil {
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
		if r.alone, err = swept(onlyGroup(first), opts.Sweep); err != nil {
			return nil, err
		}
	}
	if opts.Decisions != nil {
		r.out = newDecisions(opts.Decisions)
	}
	if several(groups) {
		opts.Trails = 0 // a trail is of one key under one policy's limits
	}
	if opts.Suggest || opts.Trails > 0 {
		r.spool, err = newSpool(opts.Suggest && len(groups) > 1)
	}
	return r, err
}

// pass reads the traffic once.
func (r *replay) pass(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go r.feed.run(ctx)
	side := newSide(r.side())
	defer side.close()
	var failed error
	var decided int64
	for b := range r.feed.full {
		if failed == nil {
			requests := b.requests
			if r.other != nil {
				requests = r.other.split(b.requests)
			}
			if r.exact != nil {
				r.exact.each(requests)
			}
			side.begin(requests)
			failed = r.decide(b, requests)
			side.wait()
			if r.other != nil {
				r.other.each(b.requests)
			}
			if failed != nil {
				stop()
			}
		}
		decided += int64(len(b.requests))
		r.feed.done(b)
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

// decide takes the requests of a batch through the limits that were asked for.
func (r *replay) decide(b *batch, requests []request) error {
	if r.out != nil {
		r.out.read(b.asked)
	}
	r.main.each(requests, func(q *request, allowed bool) {
		bucket := r.line.at(q.at)
		if allowed {
			bucket.Admitted++
		} else {
			bucket.Denied++
			r.denied.add(q.note, r.main.blame)
		}
		if r.other != nil {
			r.other.now = append(r.other.now, judged{!allowed, r.main.blame})
		}
		if r.out != nil {
			r.out.decided(q.seq, r.main.answers)
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

// side returns what else the traffic goes through, each by itself.
func (r *replay) side() (tasks []func([]request)) {
	for _, other := range slices.Concat(r.rivals, r.sweep) {
		tasks = append(tasks, func(requests []request) {
			other.each(requests, func(*request, bool) {})
		})
	}
	if len(r.alone) > 0 && r.alone[0] != r.sweep[0] {
		for _, other := range r.alone {
			tasks = append(tasks, ofFirstGroup(func(one []request) { other.decide(one) }))
		}
	}
	if r.demand != nil {
		tasks = append(tasks, ofFirstGroup(func(one []request) { r.demand.add(&one[0]) }))
	}
	return tasks
}

// ofFirstGroup returns a task that has each request of the first group done, which other limits decide about as well.
func ofFirstGroup(do func(one []request)) func([]request) {
	return func(requests []request) {
		for i := range requests {
			if requests[i].group == 0 {
				do(requests[i : i+1])
			}
		}
	}
}

// collect puts together what one pass has found.
func (r *replay) collect() {
	f := &r.found
	names := r.feed.keys
	f.Traffic = r.feed.total
	f.Outcome = r.main.outcome(names, r.opts.Top)
	for i, key := range r.main.worst(r.opts.Top) {
		f.Outcome.TopDenied[i].Profile = r.denied.key(key)
	}
	f.Denied = r.denied.findings()
	if r.other != nil {
		f.Against = r.other.findings(names, r.groups, r.opts)
	}
	f.Policies = r.main.policies()
	f.Timeline = r.line.findings()
	for _, rival := range r.rivals {
		f.Compare = append(f.Compare, rival.outcome(names, 0))
	}
	if len(r.sweep) > 0 {
		f.Sweep = sweepFindings(r.sweep)
	}
}

// again answers from the spool what can only be asked once the traffic is known.
func (r *replay) again(ctx context.Context) error {
	if r.spool == nil || r.found.Interrupted && ctx.Err() != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	worst := r.main.worstIn(1, r.opts.Trails)
	followed, err := newTrails(r.groups[0].Limits, r.found.Timeline, worst)
	if err != nil {
		return err
	}
	trial, untried := r.trial()
	var read int64
	err = r.spool.each(func(q *request) error {
		if q.group == 0 {
			followed.add(q)
		}
		if trial != nil {
			trial.decide(q)
		}
		if read++; read%batchSize == 0 {
			return ctx.Err()
		}
		return nil
	})
	if err != nil {
		return err
	}
	names := r.feed.keys
	r.found.Worst = followed.findings(worst, names[0], r.main)
	if trial != nil {
		r.found.Suggestion = trial.findings(names, r.opts)
	}
	return untried
}

// invalid returns the error of an option.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "replay", Option: option, Err: fmt.Errorf(format, args...)}
}

// reason returns what is wrong with a limit, without the name of the package that says so.
func reason(err error) error {
	var wrong *slidegate.LimitError
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}
