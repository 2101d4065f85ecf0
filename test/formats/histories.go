package formats

import (
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// begin is when every history begins: a Friday, at 8:00 UTC. It is a whole hour.
const begin = rule.Micros(1_800_000_000e6)

// history is what happened to one key.
type history struct {
	name, means string // name is also that of the limit
	limits      []rule.Limit
	steps       []step
	group       string
	odd, long   bool // an odd or a long key
	together    bool // every request is charged to all limits
}

// step is a request, after some time since the beginning.
type step struct {
	after      time.Duration
	op         rule.Op
	limit      int // which one of the limits
	cost, used int64
	id         string
	hold, once bool
	charged    time.Duration // of what is settled
}

func (h *history) namespace() string {
	if h.odd {
		return "a:b"
	}
	return "shop"
}

func (h *history) key() string {
	switch {
	case h.odd:
		return "{x}\n%\xff:\""
	case h.long:
		return strings.Repeat("k", 600)
	}
	return "alice"
}

const (
	hour = rule.Micros(3600e6)
	m    = time.Minute
)

// take returns a charge.
func take(after time.Duration, cost int64) step { return step{after: after, op: rule.Take, cost: cost} }

// histories leave one of every form of state that a store has, and of what it remembers.
var histories = []history{
	{
		name: "window", means: "10 per hour, in one part: 4 in the first hour, 2 in the middle of the second",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4), take(90*m, 2)},
	},
	{
		name: "window-first", means: "10 per hour, in 6 parts that begin with the first request, rounded down: 5 in the part of 7m, 1 in the next",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour, Segments: 6, Overlap: rule.OverlapDown, Anchor: rule.AnchorFirst}},
		steps:  []step{take(7*m, 5), take(20*m, 1)},
	},
	{
		name: "parts", means: "10 per hour, in 6 parts that count in full: 3 in the first part, 2 in the third",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour, Segments: 6, Overlap: rule.OverlapWhole}},
		steps:  []step{take(0, 3), take(25*m, 2)},
	},
	{
		name: "wide-parts", means: "1,000,000 per hour, in 6 parts: 65,536 in one, which two bytes cannot hold",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 1_000_000, Window: hour, Segments: 6}},
		steps:  []step{take(0, 65_536)},
	},
	{
		name: "fixed", means: "10 per hour, a fixed window: 4 at 10m",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(10*m, 4)},
	},
	{
		name: "fixed-first", means: "10 per hour, a fixed window that begins with the first request: 4 at 10m",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour, Anchor: rule.AnchorFirst}},
		steps:  []step{take(10*m, 4)},
	},
	{
		name: "month", means: "100 per month in Berlin: 40 in January of 2027",
		limits: []rule.Limit{{Quota: 100, Calendar: rule.Month, Zone: "Europe/Berlin"}},
		steps:  []step{take(0, 40)},
	},
	{
		name: "log", means: "10 per hour, a log: 2 at the beginning, 3 at 10m",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}},
		steps:  []step{take(0, 2), take(10*m, 3)},
	},
	{
		name: "log-of-a-day", means: "10 per day, a log, whose times need more than 4 bytes: 1 at the beginning, 2 after 6 hours",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: 24 * hour}},
		steps:  []step{take(0, 1), take(360*m, 2)},
	},
	{
		name: "default", means: "10 per hour, no algorithm named: a log with 2 at the beginning, 3 at 10m",
		limits: []rule.Limit{{Quota: 10, Window: hour}},
		steps:  []step{take(0, 2), take(10*m, 3)},
	},
	{
		name: "default-parts", means: "1,000 per hour, no algorithm named: 60 parts with 300 in the first, 200 in the eleventh",
		limits: []rule.Limit{{Quota: 1_000, Window: hour}},
		steps:  []step{take(0, 300), take(10*m+30*time.Second, 200)},
	},
	{
		name: "default-wide-parts", means: "1,000,000 per hour, no algorithm named: 60 parts with 65,536 in the first, which two bytes cannot hold",
		limits: []rule.Limit{{Quota: 1_000_000, Window: hour}},
		steps:  []step{take(0, 65_536)},
	},
	{
		name: "default-changed", means: "10 per hour, no algorithm named, and then 1,000: a log of 5 that became parts, 200 in the third",
		limits: []rule.Limit{{Quota: 1_000, Window: hour}, {Quota: 10, Window: hour}},
		steps:  []step{{after: 30 * time.Second, op: rule.Take, limit: 1, cost: 5}, take(2*m, 200)},
	},
	{
		name: "bucket", means: "7 per hour and a burst of 11, a token bucket: 5 at the beginning, 3 at 10m",
		limits: []rule.Limit{{Algorithm: rule.TokenBucket, Quota: 7, Burst: 11, Window: hour}},
		steps:  []step{take(0, 5), take(10*m, 3)},
	},
	{
		name: "slots", means: "2 slots for an hour each: one taken at 5m, one taken at the beginning and renewed at 10m",
		limits: []rule.Limit{{Algorithm: rule.InFlight, Quota: 2, Window: hour}},
		steps: []step{
			{op: rule.Take, cost: 1, id: "slot-1"}, {after: 5 * m, op: rule.Take, cost: 1, id: "slot-2"}, {after: 10 * m, op: rule.Renew, cost: 1, id: "slot-1"},
		},
	},
	{
		name: "held", means: "10 per hour, held for 30m: 2 charged at the beginning, 4 held from 5m on",
		limits: []rule.Limit{{Quota: 10, Window: hour, Hold: hour / 2}},
		steps:  []step{take(0, 2), {after: 5 * m, op: rule.Take, cost: 4, id: "call-1", hold: true}},
	},
	{
		name: "held-alone", means: "10 per hour, a fixed window, held for 30m: 4 held from 5m on, and nothing charged",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour, Hold: hour / 2}},
		steps:  []step{{after: 5 * m, op: rule.Take, cost: 4, id: "call-1", hold: true}},
	},
	{
		name: "held-parts", means: "10 per hour, in 6 parts that count in full, held for 30m: 3 charged at the beginning, 4 held from 5m on",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour, Segments: 6, Overlap: rule.OverlapWhole, Hold: hour / 2}},
		steps:  []step{take(0, 3), {after: 5 * m, op: rule.Take, cost: 4, id: "call-1", hold: true}},
	},
	{
		name: "held-bucket", means: "7 per hour and a burst of 11, a token bucket, held for 30m: 5 charged at the beginning, 2 held from 5m on",
		limits: []rule.Limit{{Algorithm: rule.TokenBucket, Quota: 7, Burst: 11, Window: hour, Hold: hour / 2}},
		steps:  []step{take(0, 5), {after: 5 * m, op: rule.Take, cost: 2, id: "call-1", hold: true}},
	},
	{
		name: "settled", means: "10 per hour, a log: 4 of which 1 was used, 2 of which none was used, and a call of 2",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}},
		steps: []step{
			{op: rule.Take, cost: 4, id: "call-1"}, {after: m, op: rule.Settle, cost: 4, used: 1, id: "call-1"},
			{after: 2 * m, op: rule.Take, cost: 2, id: "call-2"}, {after: 3 * m, op: rule.Settle, cost: 2, id: "call-2", charged: 2 * m},
			{after: 4 * m, op: rule.Take, cost: 2, id: "call-3", once: true},
		},
	},
	{
		name: "held-call", means: "10 per hour, held for 30m: 4 held by a call that counts once, and one that was cancelled before it arrived",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour, Hold: hour / 2}},
		steps: []step{
			{op: rule.Take, cost: 4, id: "call-1", hold: true, once: true}, {after: m, op: rule.Settle, id: "call-2", once: true},
		},
	},
	{
		name: "generations", means: "10 per hour, a log: calls at the beginning and at 50m, and one at 65m, which begins the second generation",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}},
		steps: []step{
			{op: rule.Take, cost: 1, id: "call-1", once: true}, {after: 50 * m, op: rule.Take, cost: 2, id: "call-2", once: true},
			{after: 65 * m, op: rule.Take, cost: 3, id: "call-3", once: true},
		},
	},
	{
		name: "several", means: "10 per hour, a log, and 100 per day, a fixed window, together: a call of 2, and 4 of which 1 was used", together: true,
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}, {Algorithm: rule.FixedWindow, Quota: 100, Window: 24 * hour}},
		steps: []step{
			{op: rule.Take, cost: 2, id: "call-1", once: true}, {op: rule.Take, cost: 4, id: "call-2"}, {after: m, op: rule.Settle, cost: 4, used: 1, id: "call-2"},
		},
	},
	{
		name: "group", means: "10 per hour, a fixed window, in a group: 4 at the beginning, and a call of 1", group: "acme",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4), {op: rule.Take, cost: 1, id: "call-1", once: true}},
	},
	{
		name: "odd:%name", means: "10 per hour, a fixed window, with characters that have a meaning in stores: 4 at the beginning", group: "g}:\x00é", odd: true,
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4)},
	},
	{
		name: "long", means: "10 per hour, a fixed window, of a key of 600 bytes: 4 at the beginning, and a call of 1", long: true,
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4), {op: rule.Take, cost: 1, id: "call-1", once: true}},
	},
}
