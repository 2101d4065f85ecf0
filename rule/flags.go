package rule

import (
	"fmt"
	"slices"
	"strings"
)

// Flags tell how an answer came about, where it was not the plain way. The zero value has none set.
type Flags uint16

// The flags.
const (
	// Inherited: the store was full of live keys, and this one took over counts that may not be its own. It can
	// only have been refused for that, never admitted.
	Inherited Flags = 1 << iota
	// ClockMoved: the state was more than a window ahead of the clock and was moved back with its counts.
	ClockMoved
	// Cached: refused from a local cache; Remaining and ResetAfter are as of the store's last answer.
	Cached
	// FallbackOpen, FallbackClosed and FallbackLocal: the store did not answer in time, and the failure policy decided.
	FallbackOpen
	FallbackClosed
	FallbackLocal
	// Repeated: the reservation had been settled before. Nothing changed, and Granted is what was done then.
	Repeated
	// Unsettled: the store cannot remember another settlement of this key, so it changed nothing: it might do so twice.
	Unsettled
	// Leased: answered from units that this process had taken before. Remaining is then a lower bound, the times are upper
	// ones, and At is when the units were charged.
	Leased
	// FallbackOptimistic: the store did not answer in time, and the failure policy decided by what the store has yet to hear of.
	FallbackOptimistic
)

// Fallbacks are the flags of answers that the store had no part in, because it did not answer in time.
const Fallbacks = FallbackOpen | FallbackClosed | FallbackLocal | FallbackOptimistic

const noFlags = "none"

var flagNames = []string{"inherited", "clock-moved", "cached", "fallback-open", "fallback-closed", "fallback-local",
	"repeated", "unsettled", "leased", "fallback-optimistic"}

// Inherited reports whether the store was full of live keys, so that this key took over counts that may not be its own.
func (f Flags) Inherited() bool { return f&Inherited != 0 }

// ClockMoved reports whether the state was moved back because the clock had jumped ahead.
func (f Flags) ClockMoved() bool { return f&ClockMoved != 0 }

// Cached reports whether the request was refused from a local cache.
func (f Flags) Cached() bool { return f&Cached != 0 }

// Fallback reports whether the store did not answer in time, so that the failure policy decided.
func (f Flags) Fallback() bool { return f&Fallbacks != 0 }

// FallbackOpen reports whether the failure policy admitted the request because the store did not answer in time.
func (f Flags) FallbackOpen() bool { return f&FallbackOpen != 0 }

// FallbackClosed reports whether the failure policy refused the request because the store did not answer in time.
func (f Flags) FallbackClosed() bool { return f&FallbackClosed != 0 }

// FallbackLocal reports whether a local store decided because the store did not answer in time.
func (f Flags) FallbackLocal() bool { return f&FallbackLocal != 0 }

// FallbackOptimistic reports whether the store did not answer in time and the process decided by how much the store has yet to
// hear of.
func (f Flags) FallbackOptimistic() bool { return f&FallbackOptimistic != 0 }

// Repeated reports whether the reservation had been settled before, so that nothing changed.
func (f Flags) Repeated() bool { return f&Repeated != 0 }

// Unsettled reports whether a settlement changed nothing because the store cannot remember it.
func (f Flags) Unsettled() bool { return f&Unsettled != 0 }

// Leased reports whether the request was answered from units that this process had taken before.
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

// UnmarshalText reads what String returns.
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
