package slidegate

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate/internal/leases"
	"github.com/slidegate/slidegate/rule"
)

// The algorithms that Limit.Algorithm can name. docs/guarantees.md states what each of them promises.
const (
	SlidingWindow = rule.SlidingWindow // a weighted counter: constant memory, for quotas of any size
	SlidingLog    = rule.SlidingLog    // keeps the time of every unit: exact
	FixedWindow   = rule.FixedWindow   // one counter that restarts: up to twice the quota around an edge
	TokenBucket   = rule.TokenBucket   // refills continuously, for traffic that may burst
	InFlight      = rule.InFlight      // slots that are held and released; see Slots
)

// Values of Limit.Overlap: how a sliding window counts its oldest part, which it covers only partly. The zero value weights it
// by the covered share and rounds up.
const (
	OverlapDown  = rule.OverlapDown  // weighted by the covered share, rounded down
	OverlapWhole = rule.OverlapWhole // counted in full: the quota is then never exceeded in any window
)

// AnchorFirst is a value of Limit.Anchor: windows start with the key's first admitted request, and with its next one after it
// was idle. The zero value starts them at multiples of the window since the Unix epoch.
const AnchorFirst = rule.AnchorFirst

// Limit is a quota of units per window, and how the units are counted. Quota is required, and so is either Window or
// Calendar; the other fields have defaults. A Limit is a plain comparable value and is safe to share. New and Limiter.For
// validate it.
type Limit struct {
	// Name distinguishes limits on the same key, in state, headers and metrics. Two limits with the same name, shape
	// (algorithm, window, segments, anchor, calendar, zone) and key share their counts, so a limit per user and one per
	// tenant need different names. It may be empty, but two limiters on one store need names, or namespaces, for limits of
	// the same shape: New returns an error if the limits differ in any way, and lets them share their counts if they are
	// equal. Plans of one limiter (With, For) share counts on purpose, and so do limits with the same name:
	// that is how a key keeps what it has used when its quota changes. New cannot see limiters in another process, or over
	// another Store value for the same server.
	Name string
	// Quota is how many units a window admits, 1 to 2^53-1 (10,000 for SlidingLog and InFlight, which store each of them).
	// For InFlight it is the number of slots.
	Quota int64
	// Window is how far back the limit looks, 1ms to five years, in whole microseconds. For InFlight it is the time to
	// live: how long a slot is held if it is neither renewed nor released. With Calendar it must be 0.
	Window time.Duration
	// Algorithm is how units are counted. If it is not set, it is FixedWindow if Calendar is set; otherwise SlidingWindow if
	// Segments, Overlap or Anchor is set. If none of them is set either, the limit is a hard cap: no window ever holds more
	// than the quota. The times of up to 100 units are kept, and more units, or any above a quota of 100 or with Lease, in 50
	// to 60 parts that count in full (rule.DefaultAlgorithm). In parts a client at exactly the quota's pace gets 60/61 of it,
	// or 50/51. All such limits of one name and window share their counts, whatever their quotas are.
	Algorithm rule.Algorithm
	// Segments divides a sliding window into equal parts, 1 (the default) to 64. More parts follow the traffic more closely
	// and take 8 bytes each. Each part must be a whole number of microseconds. SlidingWindow only.
	Segments int
	// Overlap is how the partly covered oldest part counts. SlidingWindow only.
	Overlap rule.Overlap
	// Anchor is where windows start. SlidingWindow and FixedWindow only.
	Anchor rule.Anchor
	// CountRefused makes refused requests use quota too, so that a client that keeps sending requests stays out.
	CountRefused bool
	// Lease lets a store with layers (package layer/stack) lease units for busy keys, and spend them without a round trip each. What
	// is admitted stays exact. A TokenBucket then holds fewer units, by the amount that refills in 100 ms. Not for SlidingLog and
	// InFlight, nor with AnchorFirst or CountRefused. Without an algorithm, the window must be at least 15 seconds, so that its
	// parts are long enough.
	Lease bool
	// Hold makes reservations hold their units until they are settled, cancelled, or this time has passed since they were made or last
	// renewed, whatever the window is; 0 charges them to the window at once. What the limit counts plus what is held is then at
	// most the quota at every moment, and a settlement charges what was used when it is made. At most rule.MaxHolds
	// reservations hold units of one key. Not for InFlight, and not together with Lease or CountRefused. See Limiter.KeepAlive.
	Hold time.Duration
	// Burst is how many units a bucket holds; 0 means Quota. TokenBucket only.
	Burst int64
	// Calendar makes the windows calendar periods in Zone, instead of Window: rule.Day, rule.Week, rule.Month or rule.Year, for
	// budgets such as 1000 per month. FixedWindow only, which is then the default.
	Calendar rule.Period
	// Zone is the time zone of Calendar, by its IANA name such as "Europe/Berlin"; empty means UTC.
	Zone string
}

// PerSecond returns a limit of quota units per second, which no second ever exceeds; see Limit.Algorithm.
func PerSecond(quota int64) Limit { return Limit{Quota: quota, Window: time.Second} }

// PerMinute returns a limit of quota units per minute, which no minute ever exceeds; see Limit.Algorithm.
func PerMinute(quota int64) Limit { return Limit{Quota: quota, Window: time.Minute} }

// PerHour returns a limit of quota units per hour, which no hour ever exceeds; see Limit.Algorithm.
func PerHour(quota int64) Limit { return Limit{Quota: quota, Window: time.Hour} }

// PerDay returns a limit of quota units per 24 hours, which no 24 hours ever exceed; see Limit.Algorithm. For calendar days,
// set Calendar.
func PerDay(quota int64) Limit { return Limit{Quota: quota, Window: 24 * time.Hour} }

// Slots returns an in-flight limit: a key holds at most n slots at a time. Limiter.Acquire takes a slot, Release frees it.
// A slot that is neither released nor renewed expires after ttl, so that a process that dies does not hold it forever.
func Slots(n int64, ttl time.Duration) Limit {
	return Limit{Quota: n, Window: ttl, Algorithm: InFlight}
}

// compile turns l into the integers that the rule decides by.
func (l Limit) compile() (rule.Limit, error) {
	if l.Window%time.Microsecond != 0 {
		field := "window"
		if l.Algorithm == InFlight {
			field = "ttl"
		}
		return rule.Limit{}, &LimitError{Err: fmt.Errorf("%w: %s: %v is not a whole number of microseconds", ErrLimit, field, l.Window)}
	}
	if l.Hold%time.Microsecond != 0 {
		return rule.Limit{}, &LimitError{Err: fmt.Errorf("%w: hold: %v is not a whole number of microseconds", ErrLimit, l.Hold)}
	}
	if l.Calendar != 0 && l.Window != 0 {
		return rule.Limit{}, &LimitError{Err: fmt.Errorf("%w: window: %v is set together with calendar %v; leave out one of them",
			ErrLimit, l.Window, l.Calendar)}
	}
	algorithm := l.Algorithm
	if algorithm == rule.DefaultAlgorithm && (l.Segments != 0 || l.Overlap != rule.OverlapUp || l.Anchor != rule.AnchorClock) && l.Calendar == 0 {
		algorithm = SlidingWindow // it has its own address, even if it has as many parts as the default
	}
	r, err := rule.Limit{
		Algorithm: algorithm, Overlap: l.Overlap, Anchor: l.Anchor, CountRefused: l.CountRefused,
		Segments: l.Segments, Quota: l.Quota, Burst: l.Burst, Window: rule.Micros(l.Window.Microseconds()),
		Calendar: l.Calendar, Zone: l.Zone, Lease: l.Lease, Hold: rule.Micros(l.Hold.Microseconds()),
	}.Normalize()
	if err != nil {
		return rule.Limit{}, &LimitError{Err: err}
	}
	if r.Lease && r.Algorithm == TokenBucket {
		reserve := leases.Reserve(&r)
		if r.Burst/4 < reserve {
			return rule.Limit{}, &LimitError{Err: fmt.Errorf("%w: lease: a bucket of %d that refills %d in 100ms is too small; "+
				"set burst to at least %d, or leave lease out", ErrLimit, r.Burst, reserve, 4*reserve)}
		}
		r.Burst -= reserve // every process sees the smaller burst: leased units come on top of it
	}
	return r, nil
}
