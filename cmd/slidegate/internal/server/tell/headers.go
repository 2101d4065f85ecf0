package tell

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/rule"
)

// Headers writes headers. It remembers how each limit is told about. The zero value is ready, and it is safe for
// concurrent use.
type Headers struct {
	known atomic.Pointer[map[slidegate.Limit]*item] // read without a lock, so never written to
	mu    sync.Mutex
}

// item is one limit as headers tell about it.
type item struct {
	name     string // as a structured field writes it, with its quotes
	policy   string // its item of RateLimit-Policy
	policies []string
}

const (
	// sfMax is the largest integer of a structured field.
	sfMax = 999_999_999_999_999
	// maxKnown is how many limits are remembered; further ones are made ready anew each time.
	maxKnown = 4096
	// undecided are the flags of a decision that no limit made: there is nothing to tell about what is left.
	undecided = rule.FallbackOpen | rule.FallbackClosed
)

// Write tells about a verdict. Where no limit was asked (a list, no limit at all, a failure policy that lets everybody or
// nobody pass), there is no RateLimit; a policy that only watches tells nothing either. Retry-After is there only if the
// verdict is a refusal that ends.
func (t *Headers) Write(h http.Header, v *gate.Verdict) {
	d := &v.Decision
	if v.By == gate.ByLimits && !v.Shadow && d.Flags&undecided == 0 && told(v) {
		t.rateLimit(h, v)
	}
	if d.Allowed {
		return
	}
	if wait := Wait(d); wait >= 0 {
		if wait < int64(len(waits)) {
			h["Retry-After"] = waits[wait]
		} else {
			h["Retry-After"] = []string{strconv.FormatInt(wait, 10)}
		}
	}
}

// told tells whether the verdict has an answer for each of its limits. One of no limit at all has none.
func told(v *gate.Verdict) bool {
	if v.Decision.Answers == nil {
		return len(v.Limits) == 1
	}
	return len(v.Limits) == len(v.Decision.Answers)
}

// Wait is how many whole seconds a refused client has to wait, at least one; -1 if no waiting helps.
func Wait(d *slidegate.Decision) int64 {
	if d.RetryAfter == slidegate.Never {
		return -1
	}
	return max(1, seconds(d.RetryAfter))
}

// waits are the usual values of Retry-After, made once. They are shared, and appending to one makes a copy.
var waits = func() (all [301][]string) {
	for i := range all {
		all[i] = []string{strconv.Itoa(i)}
	}
	return all
}()

func (t *Headers) rateLimit(h http.Header, v *gate.Verdict) {
	d := &v.Decision
	var room [160]byte
	text := room[:0]
	if d.Answers == nil {
		one := t.item(v.Limits[0])
		text = appendItem(text, one.name, d.Remaining, effective(d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter))
		h["Ratelimit"], h["Ratelimit-Policy"] = []string{string(text)}, one.policies
		return
	}
	var policyRoom [160]byte
	policies := policyRoom[:0]
	for i := range d.Answers {
		a, one := &d.Answers[i], t.item(v.Limits[i])
		if i > 0 {
			text, policies = append(text, ", "...), append(policies, ", "...)
		}
		text = appendItem(text, one.name, a.Remaining, effective(a.Allowed, a.Remaining, duration(a.RetryAfter), duration(a.ResetAfter)))
		policies = append(policies, one.policy...)
	}
	lines := []string{string(text), string(policies)}
	h["Ratelimit"], h["Ratelimit-Policy"] = lines[:1:1], lines[1:2:2]
}

// item makes a limit ready to be told about, or finds it.
func (t *Headers) item(limit slidegate.Limit) *item {
	known := t.known.Load()
	if known != nil {
		if one := (*known)[limit]; one != nil {
			return one
		}
	}
	one := newItem(limit)
	t.mu.Lock()
	defer t.mu.Unlock()
	next := map[slidegate.Limit]*item{}
	if known = t.known.Load(); known != nil {
		if len(*known) >= maxKnown {
			return one
		}
		next = maps.Clone(*known)
	}
	next[limit] = one
	t.known.Store(&next)
	return one
}

// newItem names a limit as decisions do: by its name, or by its text if it has none. A name that cannot stand in a header,
// because it is not printable ASCII, gives way to the text as well.
func newItem(limit slidegate.Limit) *item {
	plain := limit
	plain.Name = ""
	name := cmp.Or(limit.Name, plain.String())
	quoted, err := httpsfv.Marshal(httpsfv.NewItem(name))
	if err != nil {
		name = plain.String()
		quoted = strconv.Quote(name) // numbers and words, which need no escapes
	}
	policy := quoted + ";q=" + strconv.FormatInt(min(limit.Quota, sfMax), 10)
	if window := int64(limit.Window / time.Second); limit.Window%time.Second == 0 {
		policy += ";w=" + strconv.FormatInt(window, 10)
	}
	return &item{name: quoted, policy: policy, policies: []string{policy}}
}

func appendItem(to []byte, name string, remaining, wait int64) []byte {
	to = append(to, name...)
	to = append(to, ";r="...)
	to = strconv.AppendInt(to, min(remaining, sfMax), 10)
	if wait < 0 {
		return to
	}
	to = append(to, ";t="...)
	return strconv.AppendInt(to, min(wait, sfMax), 10)
}

// effective is how long, in seconds, what remains has to do: until the same cost is admitted again, or until all is free.
// It is -1, and left out, if that never comes, and also when an admission took the last of it: some comes back long before
// all is free, and who obeys would wait for nothing.
func effective(allowed bool, remaining int64, retry, reset time.Duration) int64 {
	switch {
	case !allowed && retry == slidegate.Never, allowed && remaining == 0:
		return -1
	case !allowed:
		return seconds(retry)
	}
	return seconds(reset)
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64(d/time.Second) + min(1, int64(d%time.Second)) }

func duration(m rule.Micros) time.Duration {
	if m > math.MaxInt64/1000 { // never, or centuries
		return slidegate.Never
	}
	return time.Duration(m) * time.Microsecond
}
