package rule

import (
	"fmt"
	"strings"
)

// Flags report how an answer was made if not in the usual way. The zero value has none set.
type Flags uint16

// Values of Flags.
const (
	// Inherited: the store was full of live keys, and this key inherited counts that may not be its own. That can only have
	// caused a refusal, never an admission.
	Inherited Flags = 1 << iota
	// ClockMoved: the state was more than a window ahead of the clock and was moved back with its counts.
	ClockMoved
	// Cached: refused from a local cache; Remaining and ResetAfter are as of the store's last answer.
	Cached
	// FallbackOpen, FallbackClosed and FallbackLocal: the store did not answer in time, and the failure mode decided.
	FallbackOpen
	FallbackClosed
	FallbackLocal
	// Repeated: the reservation had been settled before, or the call been made or cancelled. Nothing changed, and Granted is what was
	// done then. A refusal with it means that the call was cancelled: its RetryAfter is Never, whatever remains.
	Repeated
	// Unsettled: the store cannot remember another settlement of this key, so it changed nothing; otherwise it could be
	// done twice.
	Unsettled
	// Leased: answered from units that this process had charged in advance. Remaining is then a lower bound, the durations
	// are upper bounds, and At is when the units were charged.
	Leased
	// Held: refused while reservations held units of the key. A reservation that ends early frees units before RetryAfter.
	Held
	// HoldsFull: refused because MaxHolds reservations hold units of the key, although there are units left.
	HoldsFull
	// NotOnce: the call was charged, but the store cannot remember its ID, so a repeat would be charged again.
	NotOnce
	// NotDurable: the store cannot record now what it decides, and forgets this if the process dies; see memstore.Open.
	NotDurable
)

var flagNames = []string{"inherited", "clock-moved", "cached", "fallback-open", "fallback-closed", "fallback-local",
	"repeated", "unsettled", "leased", "held", "holds-full", "not-once", "not-durable"}

// String returns the names of the flags that are set, such as "cached" or "clock-moved|fallback-local", or "none".
func (f Flags) String() string {
	if f == 0 {
		return "none"
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
