package rule

import (
	"fmt"
	"slices"
	"strings"
)

// Flags report how an answer was made if not in the usual way. The zero value has none set.
type Flags uint16

// Values of Flags.
const (
	// Inherited: the store was full of live keys, and this key inherited counts that may not be its own. That can only have
	// caused a denial, never an admission.
	Inherited Flags = 1 << iota
	// ClockMoved: the state was more than a window ahead of the clock and was moved back with its counts.
	ClockMoved
	// Cached: denied from a local cache; Remaining and ResetAfter are as of the store's last answer.
	Cached
	// FallbackOpen, FallbackClosed and FallbackLocal: the store did not answer in time, and the failure mode decided.
	FallbackOpen
	FallbackClosed
	FallbackLocal
	// Repeated: the reservation had been settled before. Nothing changed, and Granted is what was done then.
	Repeated
	// Unsettled: the store cannot remember another settlement of this key, so it changed nothing; otherwise it could be
	// done twice.
	Unsettled
	// Leased: answered from units that this process had charged in advance. Remaining is then a lower bound, the durations
	// are upper bounds, and At is when the units were charged.
	Leased
	// FallbackOptimistic: the store did not answer in time, and the failure mode decided by the units not yet reported to
	// the store.
	FallbackOptimistic
)

// Fallbacks are the flags of answers that were made without the store, because it did not answer in time.
const Fallbacks = FallbackOpen | FallbackClosed | FallbackLocal | FallbackOptimistic

const noFlags = "none"

var flagNames = []string{"inherited", "clock-moved", "cached", "fallback-open", "fallback-closed", "fallback-local",
	"repeated", "unsettled", "leased", "fallback-optimistic"}

// Inherited reports whether the store was full of live keys, so that this key inherited counts that may not be its own.
func (f Flags) Inherited() bool { return f&Inherited != 0 }

// ClockMoved reports whether the state was moved back because the clock had jumped ahead.
func (f Flags) ClockMoved() bool { return f&ClockMoved != 0 }

// Cached reports whether the request was denied from a local cache.
func (f Flags) Cached() bool { return f&Cached != 0 }

// Fallback reports whether the failure mode decided because the store did not answer in time.
func (f Flags) Fallback() bool { return f&Fallbacks != 0 }

// FallbackOpen reports whether the failure mode admitted the request because the store did not answer in time.
func (f Flags) FallbackOpen() bool { return f&FallbackOpen != 0 }

// FallbackClosed reports whether the failure mode denied the request because the store did not answer in time.
func (f Flags) FallbackClosed() bool { return f&FallbackClosed != 0 }

// FallbackLocal reports whether a local store decided because the store did not answer in time.
func (f Flags) FallbackLocal() bool { return f&FallbackLocal != 0 }

// FallbackOptimistic reports whether the process decided by the units not yet reported to the store, because the store did
// not answer in time.
func (f Flags) FallbackOptimistic() bool { return f&FallbackOptimistic != 0 }

// Repeated reports whether the reservation had been settled before, so that nothing changed.
func (f Flags) Repeated() bool { return f&Repeated != 0 }

// Unsettled reports whether a settlement changed nothing because the store cannot remember it.
func (f Flags) Unsettled() bool { return f&Unsettled != 0 }

// Leased reports whether the request was answered from units that this process had charged in advance.
func (f Flags) Leased() bool { return f&Leased != 0 }

// String returns the names of the flags that are set, such as "cached" or "clock-moved|fallback-local", or "none".
func (f Flags) String() string {
	if f == 0 {
		return noFlags
	}
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if unknown := f >> len(flagNames) << len(flagNames); unknown != 0 {
		names = append(names, fmt.Sprintf("unknown(%d)", uint16(unknown)))
	}
	return strings.Join(names, "|")
}

// MarshalText makes Flags readable in JSON and logs.
func (f Flags) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (f *Flags) UnmarshalText(text []byte) error {
	var flags Flags
	if len(text) > 0 && string(text) != noFlags {
		for name := range strings.SplitSeq(string(text), "|") {
			i := slices.Index(flagNames, name)
			if i < 0 {
				return fmt.Errorf("rule: flags: must be %s or some of %s joined by |, not %q", noFlags, strings.Join(flagNames, ", "), name)
			}
			flags |= 1 << i
		}
	}
	*f = flags
	return nil
}
