// Package rule is the decision rule of Slidegate: given a limit, the state of one key, a time and a cost, it decides
// whether the request is admitted and what the state is afterwards. It uses integers only, reads no clock, takes no lock
// and starts no goroutine, so every store can compute the same answers with it. Store authors import it; users of limiters
// do not need to.
package rule

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Micros is a time since the Unix epoch, or a duration, in microseconds: the resolution that Redis and PostgreSQL share.
//
// It is a distinct type so that a time.Duration, a number of nanoseconds or a count cannot be mistaken for it. Convert with
// Time.UnixMicro or Duration.Microseconds.
type Micros int64

// Duration returns the duration m as a time.Duration. Never, and anything else longer than a time.Duration can hold,
// becomes the longest one.
func (m Micros) Duration() time.Duration {
	const most = math.MaxInt64 / Micros(time.Microsecond)
	switch {
	case m > most:
		return math.MaxInt64
	case m < -most:
		return math.MinInt64
	}
	return time.Duration(m) * time.Microsecond
}

// Time returns the time m as a time.Time in the local zone.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)) }

// The accepted ranges. Normalize rejects anything outside, so that no product in the rule overflows and every port of the
// rule is exact.
const (
	MaxQuota    = 1<<53 - 1                         // the largest quota, burst and cost; counts saturate here
	MaxLogQuota = 10_000                            // the largest quota of a sliding log or an in-flight limit, which store every unit
	MaxWindow   = Micros(5 * 366 * 86_400 * 1e6)    // five years
	MaxSegments = 64                                // the largest number of parts of a sliding window
	MaxNow      = Micros(1<<53 - 1 - 2*(MaxWindow)) // the latest time, in the year 2245
	Never       = Micros(math.MaxInt64)             // the RetryAfter of a cost that is never admitted
	Absent      = Micros(math.MinInt64 / 2)         // the Start of a window state that was never charged
)

// minWindow is the shortest window: one millisecond.
const minWindow = Micros(1_000)

// ErrLimit is wrapped by errors that report an invalid limit.
var ErrLimit = errors.New("invalid limit")

// Overlap is how a sliding window counts its oldest part, which it covers only partly.
type Overlap uint8

// Values of Overlap.
const (
	OverlapUp    Overlap = iota // weighted by the covered share, rounded up; the default
	OverlapDown                 // weighted by the covered share, rounded down
	OverlapWhole                // counted in full: no window ever holds more than the quota
)

// Anchor is where windows start.
type Anchor uint8

// Values of Anchor.
const (
	AnchorClock Anchor = iota // multiples of the part since the Unix epoch; the default
	AnchorFirst               // the key's first admitted request, and its next one after it was idle
)

// Limit is a quota of units per window, and how the units are counted. The zero value is not usable, and a Limit must pass
// through Normalize before it decides. It is a plain value, safe to copy and to share.
type Limit struct {
	Algorithm    Algorithm
	Overlap      Overlap // sliding-window only
	Anchor       Anchor  // sliding-window and fixed-window only
	CountRefused bool    // whether a refused request uses quota
	Lease        bool    // whether units may be charged in advance and spent later; the rule itself is the same
	Calendar     Period  // fixed-window only: windows are days, weeks, months or years in Zone instead of a fixed length
	Segments     int     // sliding-window only: 1 to MaxSegments; 0 means 1. Without an algorithm, Normalize sets it and Overlap
	Quota        int64   // units per window; in-flight: slots
	Burst        int64   // token-bucket only: how many units the bucket holds; 0 means Quota
	Hold         Micros  // how long a reservation holds units that it has not settled; 0 means that it charges them at once
	Window       Micros  // in-flight: how long a slot is held unless it is renewed; with Calendar, 0 or the longest period
	Zone         string  // with Calendar only: an IANA time zone; empty means UTC
}

// Capacity returns the most that one request can ever take: the quota, or the burst of a token bucket.
func (l *Limit) Capacity() int64 {
	if l.Algorithm == TokenBucket {
		return l.Burst
	}
	return l.Quota
}

// Parts returns how many counts the state of l holds: 0 for algorithms without counts. Without a named algorithm, a state has counts only
// if it is in parts.
func (l *Limit) Parts() int {
	switch l.Algorithm {
	case SlidingWindow, DefaultAlgorithm:
		return l.Segments + 1
	case FixedWindow:
		return 1
	default:
		return 0
	}
}

// resolve returns the algorithm that l counts by.
func (l *Limit) resolve() Algorithm {
	switch {
	case l.Algorithm != DefaultAlgorithm:
		return l.Algorithm
	case l.Calendar != 0:
		return FixedWindow
	case l.isDefault():
		return DefaultAlgorithm
	default:
		return SlidingWindow
	}
}

// Normalize returns l with its defaults filled in, or an error that names the field and what is accepted.
func (l Limit) Normalize() (Limit, error) {
	l.Algorithm = l.resolve()
	if err := l.normalizeCalendar(); err != nil {
		return Limit{}, fmt.Errorf("%w: %w", ErrLimit, err)
	}
	if l.Algorithm == DefaultAlgorithm {
		if err := l.normalizeDefault(); err != nil {
			return Limit{}, fmt.Errorf("%w: %w", ErrLimit, err)
		}
	}
	if l.Algorithm == SlidingWindow && l.Segments == 0 {
		l.Segments = 1
	}
	if l.Algorithm != SlidingWindow && l.Algorithm != DefaultAlgorithm && l.Segments == 1 {
		l.Segments = 0
	}
	if l.Algorithm == TokenBucket && l.Burst == 0 {
		l.Burst = l.Quota
	}
	if err := l.check(); err != nil {
		return Limit{}, fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return l, nil
}

func (l *Limit) check() error {
	switch {
	case l.Algorithm > InFlight:
		return fmt.Errorf("algorithm: unknown value %d", l.Algorithm)
	case l.Overlap > OverlapWhole:
		return fmt.Errorf("overlap: unknown value %d", l.Overlap)
	case l.Anchor > AnchorFirst:
		return fmt.Errorf("anchor: unknown value %d", l.Anchor)
	case l.Quota < 1 || l.Quota > MaxQuota:
		return fmt.Errorf("quota: must be 1 to %d, not %d", int64(MaxQuota), l.Quota)
	case l.Algorithm == InFlight && (l.Window < minWindow || l.Window > MaxWindow):
		return fmt.Errorf("ttl: must be 1ms to 5 years (43920h), not %dus", l.Window)
	case l.Window < minWindow || l.Window > MaxWindow:
		return fmt.Errorf("window: must be 1ms to 5 years (43920h), not %dus", l.Window)
	}
	if is := &algorithms[l.Algorithm]; is.stores != "" && l.Quota > MaxLogQuota {
		return fmt.Errorf("quota: %s, so it must be at most %d, not %d%s", is.stores, MaxLogQuota, l.Quota, is.instead)
	}
	if err := l.checkUnused(); err != nil {
		return err
	}
	if l.Hold != 0 {
		if err := l.checkHold(); err != nil {
			return err
		}
	}
	if l.Lease {
		if err := l.checkLease(); err != nil {
			return err
		}
	}
	switch l.Algorithm {
	case SlidingWindow:
		return l.checkSegments()
	case TokenBucket:
		return l.checkBurst()
	}
	return nil
}

// checkUnused rejects options that the algorithm would silently ignore.
func (l *Limit) checkUnused() error {
	is := &algorithms[l.Algorithm]
	const ignored = "%s: %v applies to %s, not to %s; leave it out"
	switch {
	case l.Algorithm == DefaultAlgorithm && l.Burst != 0:
		return fmt.Errorf("burst: %v applies to token-bucket only; leave it out, or name token-bucket", l.Burst)
	case l.Algorithm == DefaultAlgorithm: // Normalize has filled the other options in
	case l.Segments != 0 && !is.segments:
		return fmt.Errorf(ignored, "segments", l.Segments, only(func(t *traits) bool { return t.segments }), l.Algorithm)
	case l.Overlap != OverlapUp && !is.overlap:
		return fmt.Errorf(ignored, "overlap", l.Overlap, only(func(t *traits) bool { return t.overlap }), l.Algorithm)
	case l.Anchor != AnchorClock && !is.anchor:
		return fmt.Errorf(ignored, "anchor", l.Anchor, only(func(t *traits) bool { return t.anchor }), l.Algorithm)
	case l.Burst != 0 && !is.burst:
		return fmt.Errorf(ignored+", or name token-bucket", "burst", l.Burst, only(func(t *traits) bool { return t.burst }), l.Algorithm)
	case l.CountRefused && !is.countRefused:
		return fmt.Errorf("count_refused: a refused request holds no slot, so it does not apply to %s; leave it out", l.Algorithm)
	}
	return nil
}

func (l *Limit) checkSegments() error {
	if l.Segments < 1 || l.Segments > MaxSegments {
		return fmt.Errorf("segments: must be 1 to %d, not %d", MaxSegments, l.Segments)
	}
	n := Micros(l.Segments)
	if l.Window%n == 0 {
		return nil
	}
	fewer, more := n-1, n+1
	for l.Window%fewer != 0 {
		fewer--
	}
	for more <= MaxSegments && l.Window%more != 0 {
		more++
	}
	either := fmt.Sprintf("%d", fewer)
	if more <= MaxSegments {
		either += fmt.Sprintf(" or %d", more)
	}
	window := l.Window/n*n + n
	if window > MaxWindow {
		window -= n
	}
	return fmt.Errorf("segments: a window of %dus does not divide into %d parts of whole microseconds; "+
		"use %s segments, or a window of %dus", l.Window, n, either, window)
}

func (l *Limit) checkBurst() error {
	if l.Burst < 1 || l.Burst > MaxQuota {
		return fmt.Errorf("burst: must be 1 to %d, not %d", int64(MaxQuota), l.Burst)
	}
	if product(l.Burst, l.Window).above(product(l.Quota, MaxWindow)) {
		return fmt.Errorf("burst: a bucket of %d that refills %d per %dus needs more than five years to fill; "+
			"use a smaller burst or a larger quota", l.Burst, l.Quota, l.Window)
	}
	return nil
}
