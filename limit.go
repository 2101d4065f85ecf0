package slidegate

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// Algorithm is how a limit counts; the zero value is SlidingWindow.
type Algorithm = rule.Algorithm

// The algorithms. docs/guarantees.md says what each promises in any window.
const (
	SlidingWindow = rule.SlidingWindow
	SlidingLog    = rule.SlidingLog
	FixedWindow   = rule.FixedWindow
	TokenBucket   = rule.TokenBucket
)

// Overlap is how the oldest part of a sliding window counts, which the window covers only partly; the zero value is
// OverlapUp.
type Overlap = rule.Overlap

// The overlaps.
const (
	OverlapUp    = rule.Up    // weighted by what is covered, rounded up
	OverlapDown  = rule.Down  // weighted by what is covered, rounded down
	OverlapWhole = rule.Whole // counted in full: the quota is then never exceeded in any window
)

// Anchor is where windows start; the zero value is AnchorClock.
type Anchor = rule.Anchor

// The anchors.
const (
	AnchorClock = rule.Clock // multiples of the window since the Unix epoch
	AnchorFirst = rule.First // the key's first admitted request, and again after it was idle
)

// Limit is a quota of units per window, and how it is counted. Quota and Window are required, the rest has defaults.
// It is a plain value, comparable, and safe to share. New and Limiter.For check it.
type Limit struct {
	// Name distinguishes limits that face the same key, in state, headers and metrics. Two limits of the same name, shape
	// (algorithm, window, segments, anchor) and key share their counts, so a limit per user and one per tenant need different
	// names. It may be empty, but two limiters on one store need names, or namespaces, for limits of one shape: New returns
	// an error if they differ in anything, and lets them share their counts if they are equal.
	// Plans of one limiter (With, For, AllowLimit) share counts on purpose, and so do limits of the same name: that is how a
	// key keeps what it has used when its quota changes. New cannot see limiters in another process, or over another Store
	// value for the same server.
	Name string
	// Quota is how many units a window admits, 1 to 2^53-1 (10,000 for SlidingLog, which stores every one).
	Quota int64
	// Window is how far back the limit looks, 1ms to five years, in whole microseconds.
	Window time.Duration
	// Algorithm is how units are counted.
	Algorithm Algorithm
	// Segments cuts a sliding window into equal parts, 1 (the default) to 64; more parts follow the traffic more closely
	// and take 8 bytes each. The window must divide into them in whole microseconds. SlidingWindow only.
	Segments int
	// Overlap is how the partly covered oldest part counts. SlidingWindow only.
	Overlap Overlap
	// Anchor is where windows start. SlidingWindow and FixedWindow only.
	Anchor Anchor
	// CountDenied makes refused requests use quota too, so that a client that hammers stays out.
	CountDenied bool
	// Burst is how many units a bucket holds; 0 means Quota. TokenBucket only.
	Burst int64
}

// PerSecond returns a limit of quota units per second, counted by a sliding window of one segment.
func PerSecond(quota int64) Limit { return Limit{Quota: quota, Window: time.Second} }

// PerMinute returns a limit of quota units per minute, counted by a sliding window of one segment.
func PerMinute(quota int64) Limit { return Limit{Quota: quota, Window: time.Minute} }

// PerHour returns a limit of quota units per hour, counted by a sliding window of one segment.
func PerHour(quota int64) Limit { return Limit{Quota: quota, Window: time.Hour} }

// PerDay returns a limit of quota units per 24 hours, counted by a sliding window of one segment.
func PerDay(quota int64) Limit { return Limit{Quota: quota, Window: 24 * time.Hour} }

// Check returns a LimitError that names the field and the fix, or nil if l can be used.
func (l Limit) Check() error {
	_, err := l.compile()
	return err
}

// compile turns l into the integers that decisions are made of.
func (l Limit) compile() (rule.Limit, error) {
	if l.Window%time.Microsecond != 0 {
		return rule.Limit{}, &LimitError{Err: fmt.Errorf("%w: window: %v is not a whole number of microseconds", ErrLimit, l.Window)}
	}
	r, err := rule.Limit{
		Algorithm: l.Algorithm, Overlap: l.Overlap, Anchor: l.Anchor, CountDenied: l.CountDenied,
		Segments: l.Segments, Quota: l.Quota, Burst: l.Burst, Window: Micros(l.Window.Microseconds()),
	}.Normalize()
	if err != nil {
		return rule.Limit{}, &LimitError{Err: err}
	}
	return r, nil
}
