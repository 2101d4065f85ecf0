package config

import (
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// maxWait is the longest time that a request may wait.
const maxWait = time.Hour

// wait reads how long requests may wait in line.
func (r *reader) wait(e yamlfile.Field) (d time.Duration) {
	text, ok := r.duration(e, "2s or 500ms")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		r.Problems.Addf(e.ValueAt(), "wait: %s is not a duration such as 2s or 500ms", errtext.Quote(text))
	case d < time.Millisecond || d > maxWait:
		r.Problems.Addf(e.ValueAt(), "wait: must be 1ms to 1h, not %s", errtext.Quote(text))
	}
	return d
}

// checkWait reports what a policy whose requests wait cannot have; at is the position of the wait.
func (r *reader) checkWait(p *Policy, at yamlfile.Position) {
	if p.Penalty > 0 {
		r.Problems.Addf(at, "wait: a request that waits is not refused, so no penalty would begin; leave out wait or penalty")
	}
	if p.anyLimit(func(l slidegate.Limit) bool { return l.CountRefused }) {
		r.Problems.Addf(at, "wait: a request that waits is not refused, so count_refused would count nothing; leave out wait or count_refused")
	}
}
