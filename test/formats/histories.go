package formats

import (
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// begin is when every history begins: a Friday, at 8:00 UTC. It is a whole hour.
const begin = rule.Micros(1_800_000_000e6)

// history is what happened to one key, and what follows from that.
type history struct {
	name, means string // name is also that of the limit, or of the document
	limits      []rule.Limit
	steps       []step
	wants       []want
	group       string
	odd, long   bool   // an odd or a long key
	together    bool   // every request is charged to all limits; wants are what the first answers
	document    string // if it is one, and no limits
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

// want is the answer to a step after the history. Of requests that are not peeks, only what was done is compared.
type want struct {
	step
	allowed                bool
	flags                  rule.Flags
	granted, remaining     int64
	retryAfter, resetAfter time.Duration
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

// peek returns a request for a cost that is refused.
func peek(after time.Duration, cost, remaining int64, retryAfter, resetAfter time.Duration) want {
	return want{step: step{after: after, op: rule.Peek, cost: cost}, remaining: remaining, retryAfter: retryAfter, resetAfter: resetAfter}
}

// take returns a charge.
func take(after time.Duration, cost int64) step { return step{after: after, op: rule.Take, cost: cost} }

// What the wants follow from is said beside them: which units count when, and when they no longer do.
var histories = []history{
	{
		name: "window", means: "10 per hour, in one part: 4 in the first hour, 2 in the middle of the second",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4), take(90*m, 2)},
		// A quarter of the 4 counts, which is 1, and the 2: 3 of 10. 8 fit when none of the 4 counts, at 120m. The 2 count until 180m.
		wants: []want{peek(105*m, 8, 7, 15*m, 75*m)},
	},
	{
		name: "window-first", means: "10 per hour, in 6 parts that begin with the first request, rounded down: 5 in the part of 7m, 1 in the next",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour, Segments: 6, Overlap: rule.OverlapDown, Anchor: rule.AnchorFirst}},
		steps:  []step{take(7*m, 5), take(20*m, 1)},
		// At 72m, half of the part from 7m is left in the window: 2.5 of its 5, rounded down to 2, and the 1. 8 fit when 5 times the share
		// is below 2, just after 73m. The last unit counts as 1 while its whole part is in the window, until 77m.
		wants: []want{peek(72*m, 8, 7, m+time.Microsecond, 5*m+time.Microsecond)},
	},
	{
		name: "parts", means: "10 per hour, in 6 parts that count in full: 3 in the first part, 2 in the third",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour, Segments: 6, Overlap: rule.OverlapWhole}},
		steps:  []step{take(0, 3), take(25*m, 2)},
		// A part counts until its end is a window ago: the first until 70m, the third until 90m.
		wants: []want{peek(65*m, 6, 5, 5*m, 25*m)},
	},
	{
		name: "wide-parts", means: "1,000,000 per hour, in 6 parts: 65,536 in one, which two bytes cannot hold",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 1_000_000, Window: hour, Segments: 6}},
		steps:  []step{take(0, 65_536)},
		// Half of the part counts, until 70m less and less.
		wants: []want{peek(65*m, 1_000_000, 1_000_000-32_768, 5*m, 5*m)},
	},
	{
		name: "fixed", means: "10 per hour, a fixed window: 4 at 10m",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(10*m, 4)},
		wants:  []want{peek(20*m, 7, 6, 40*m, 40*m)}, // it ends at 60m
	},
	{
		name: "fixed-first", means: "10 per hour, a fixed window that begins with the first request: 4 at 10m",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour, Anchor: rule.AnchorFirst}},
		steps:  []step{take(10*m, 4)},
		wants:  []want{peek(20*m, 7, 6, 50*m, 50*m)}, // it ends at 70m
	},
	{
		name: "month", means: "100 per month in Berlin: 40 in January of 2027",
		limits: []rule.Limit{{Quota: 100, Calendar: rule.Month, Zone: "Europe/Berlin"}},
		steps:  []step{take(0, 40)},
		// An hour later it is the 15th, 10:00 in Berlin. The month ends 16 days and 14 hours later.
		wants: []want{peek(60*m, 61, 60, (16*24+14)*time.Hour, (16*24+14)*time.Hour)},
	},
	{
		name: "log", means: "10 per hour, a log: 2 at the beginning, 3 at 10m",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}},
		steps:  []step{take(0, 2), take(10*m, 3)},
		wants:  []want{peek(30*m, 7, 5, 30*m, 40*m)}, // the 2 count until 60m, the 3 until 70m
	},
	{
		name: "log-of-a-day", means: "10 per day, a log, whose times need more than 4 bytes: 1 at the beginning, 2 after 6 hours",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: 24 * hour}},
		steps:  []step{take(0, 1), take(360*m, 2)},
		wants:  []want{peek(720*m, 8, 7, 720*m, 1080*m)}, // the 1 counts until 24h, the 2 until 30h
	},
	{
		name: "default", means: "10 per hour, no algorithm named: a log with 2 at the beginning, 3 at 10m",
		limits: []rule.Limit{{Quota: 10, Window: hour}},
		steps:  []step{take(0, 2), take(10*m, 3)},
		wants:  []want{peek(30*m, 7, 5, 30*m, 40*m)}, // as in a log
	},
	{
		name: "default-parts", means: "1,000 per hour, no algorithm named: 60 parts with 300 in the first, 200 in the eleventh",
		limits: []rule.Limit{{Quota: 1_000, Window: hour}},
		steps:  []step{take(0, 300), take(10*m+30*time.Second, 200)},
		wants:  []want{peek(30*m, 600, 500, 31*m, 41*m)}, // the first part counts until 61m, the eleventh until 71m
	},
	{
		name: "default-wide-parts", means: "1,000,000 per hour, no algorithm named: 60 parts with 65,536 in the first, which two bytes cannot hold",
		limits: []rule.Limit{{Quota: 1_000_000, Window: hour}},
		steps:  []step{take(0, 65_536)},
		wants:  []want{peek(30*m, 1_000_000, 1_000_000-65_536, 31*m, 31*m)}, // the first part counts until 61m
	},
	{
		name: "default-changed", means: "10 per hour, no algorithm named, and then 1,000: a log of 5 that became parts, 200 in the third",
		limits: []rule.Limit{{Quota: 1_000, Window: hour}, {Quota: 10, Window: hour}},
		steps:  []step{{after: 30 * time.Second, op: rule.Take, limit: 1, cost: 5}, take(2*m, 200)},
		wants: []want{
			peek(30*m, 900, 795, 33*m, 33*m), // the third part counts until 63m
			{step: step{after: 30 * m, op: rule.Peek, limit: 1, cost: 1}, retryAfter: 33 * m, resetAfter: 33 * m},
		},
	},
	{
		name: "bucket", means: "7 per hour and a burst of 11, a token bucket: 5 at the beginning, 3 at 10m",
		limits: []rule.Limit{{Algorithm: rule.TokenBucket, Quota: 7, Burst: 11, Window: hour}},
		steps:  []step{take(0, 5), take(10*m, 3)},
		// 10m refill 7/6. At 10m 5 - 7/6 + 3 are missing, at 20m 17/3: 5 whole units are there. 10 fit when 1 is missing: 14/3 units
		// refill in 40m, and all 17/3 in 2914.285714.. seconds.
		wants: []want{peek(20*m, 10, 5, 40*m, 2_914_285_715*time.Microsecond)},
	},
	{
		name: "slots", means: "2 slots for an hour each: one taken at 5m, one taken at the beginning and renewed at 10m",
		limits: []rule.Limit{{Algorithm: rule.InFlight, Quota: 2, Window: hour}},
		steps: []step{
			{op: rule.Take, cost: 1, id: "slot-1"}, {after: 5 * m, op: rule.Take, cost: 1, id: "slot-2"}, {after: 10 * m, op: rule.Renew, cost: 1, id: "slot-1"},
		},
		wants: []want{peek(20*m, 1, 0, 45*m, 50*m)}, // they end at 65m and 70m
	},
	{
		name: "held", means: "10 per hour, held for 30m: 2 charged at the beginning, 4 held from 5m on",
		limits: []rule.Limit{{Quota: 10, Window: hour, Hold: hour / 2}},
		steps:  []step{take(0, 2), {after: 5 * m, op: rule.Take, cost: 4, id: "call-1", hold: true}},
		wants: []want{
			{step: step{after: 10 * m, op: rule.Peek, cost: 6}, flags: rule.Held, remaining: 4, retryAfter: 25 * m, resetAfter: 50 * m}, // 35m, 60m
			{step: step{after: 10 * m, op: rule.Renew, cost: 4, id: "call-1"}, allowed: true, granted: 4},
		},
	},
	{
		name: "held-alone", means: "10 per hour, a fixed window, held for 30m: 4 held from 5m on, and nothing charged",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour, Hold: hour / 2}},
		steps:  []step{{after: 5 * m, op: rule.Take, cost: 4, id: "call-1", hold: true}},
		wants: []want{
			{step: step{after: 10 * m, op: rule.Peek, cost: 7}, flags: rule.Held, remaining: 6, retryAfter: 25 * m, resetAfter: 25 * m},
		},
	},
	{
		name: "held-parts", means: "10 per hour, in 6 parts that count in full, held for 30m: 3 charged at the beginning, 4 held from 5m on",
		limits: []rule.Limit{{Algorithm: rule.SlidingWindow, Quota: 10, Window: hour, Segments: 6, Overlap: rule.OverlapWhole, Hold: hour / 2}},
		steps:  []step{take(0, 3), {after: 5 * m, op: rule.Take, cost: 4, id: "call-1", hold: true}},
		wants: []want{
			{step: step{after: 10 * m, op: rule.Peek, cost: 4}, flags: rule.Held, remaining: 3, retryAfter: 25 * m, resetAfter: 60 * m}, // 35m, 70m
			{step: step{after: 10 * m, op: rule.Renew, cost: 4, id: "call-1"}, allowed: true, granted: 4},
		},
	},
	{
		name: "held-bucket", means: "7 per hour and a burst of 11, a token bucket, held for 30m: 5 charged at the beginning, 2 held from 5m on",
		limits: []rule.Limit{{Algorithm: rule.TokenBucket, Quota: 7, Burst: 11, Window: hour, Hold: hour / 2}},
		steps:  []step{take(0, 5), {after: 5 * m, op: rule.Take, cost: 2, id: "call-1", hold: true}},
		wants: []want{
			// At 10m 5 - 7/6 are missing and 2 are held. 6 more fit when 3 are missing, after 2/7 of an hour: 1028.571428.. seconds. All 5 have
			// refilled after 5/7 of an hour: 2571.428571.. seconds.
			{step: step{after: 10 * m, op: rule.Peek, cost: 6}, flags: rule.Held, remaining: 5,
				retryAfter: 428_571_429 * time.Microsecond, resetAfter: 1_971_428_572 * time.Microsecond},
		},
	},
	{
		name: "settled", means: "10 per hour, a log: 4 of which 1 was used, 2 of which none was used, and a call of 2",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}},
		steps: []step{
			{op: rule.Take, cost: 4, id: "call-1"}, {after: m, op: rule.Settle, cost: 4, used: 1, id: "call-1"},
			{after: 2 * m, op: rule.Take, cost: 2, id: "call-2"}, {after: 3 * m, op: rule.Settle, cost: 2, id: "call-2", charged: 2 * m},
			{after: 4 * m, op: rule.Take, cost: 2, id: "call-3", once: true},
		},
		wants: []want{
			{step: step{after: 10 * m, op: rule.Settle, cost: 4, used: 4, id: "call-1"}, allowed: true, flags: rule.Repeated, granted: 3},
			{step: step{after: 10 * m, op: rule.Settle, cost: 2, used: 2, id: "call-2", charged: 2 * m}, allowed: true, flags: rule.Repeated, granted: 2},
			{step: step{after: 10 * m, op: rule.Take, cost: 2, id: "call-3", once: true}, allowed: true, flags: rule.Repeated, granted: 2},
			peek(10*m, 8, 7, 50*m, 54*m), // 1 of the beginning, and 2 of 4m
		},
	},
	{
		name: "held-call", means: "10 per hour, held for 30m: 4 held by a call that counts once, and one that was cancelled before it arrived",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour, Hold: hour / 2}},
		steps: []step{
			{op: rule.Take, cost: 4, id: "call-1", hold: true, once: true}, {after: m, op: rule.Settle, id: "call-2", once: true},
		},
		wants: []want{
			{step: step{after: 10 * m, op: rule.Take, cost: 4, id: "call-1", hold: true, once: true}, allowed: true, flags: rule.Repeated, granted: 4},
			{step: step{after: 10 * m, op: rule.Take, cost: 4, id: "call-2", once: true}, flags: rule.Repeated | rule.Held}, // cancelled, while others hold units
			{step: step{after: 10 * m, op: rule.Settle, used: 1, id: "call-1", once: true}, allowed: true, granted: 3},
		},
	},
	{
		name: "generations", means: "10 per hour, a log: calls at the beginning and at 50m, and one at 65m, which begins the second generation",
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}},
		steps: []step{
			{op: rule.Take, cost: 1, id: "call-1", once: true}, {after: 50 * m, op: rule.Take, cost: 2, id: "call-2", once: true},
			{after: 65 * m, op: rule.Take, cost: 3, id: "call-3", once: true},
		},
		wants: []want{
			{step: step{after: 66 * m, op: rule.Take, cost: 2, id: "call-2", once: true}, allowed: true, flags: rule.Repeated, granted: 2},
			{step: step{after: 66 * m, op: rule.Take, cost: 3, id: "call-3", once: true}, allowed: true, flags: rule.Repeated, granted: 3},
			peek(66*m, 6, 5, 44*m, 59*m), // 2 of 50m, 3 of 65m
		},
	},
	{
		name: "several", means: "10 per hour, a log, and 100 per day, a fixed window, together: a call of 2, and 4 of which 1 was used", together: true,
		limits: []rule.Limit{{Algorithm: rule.SlidingLog, Quota: 10, Window: hour}, {Algorithm: rule.FixedWindow, Quota: 100, Window: 24 * hour}},
		steps: []step{
			{op: rule.Take, cost: 2, id: "call-1", once: true}, {op: rule.Take, cost: 4, id: "call-2"}, {after: m, op: rule.Settle, cost: 4, used: 1, id: "call-2"},
		},
		wants: []want{
			{step: step{after: 10 * m, op: rule.Take, cost: 2, id: "call-1", once: true}, allowed: true, flags: rule.Repeated, granted: 2},
			{step: step{after: 10 * m, op: rule.Settle, cost: 4, used: 4, id: "call-2"}, allowed: true, flags: rule.Repeated, granted: 3},
			peek(10*m, 8, 7, 50*m, 50*m), // 2 and 1 of the beginning
		},
	},
	{
		name: "group", means: "10 per hour, a fixed window, in a group: 4 at the beginning, and a call of 1", group: "acme",
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4), {op: rule.Take, cost: 1, id: "call-1", once: true}},
		wants: []want{
			peek(m, 6, 5, 59*m, 59*m), {step: step{after: m, op: rule.Take, cost: 1, id: "call-1", once: true}, allowed: true, flags: rule.Repeated, granted: 1},
		},
	},
	{
		name: "odd:%name", means: "10 per hour, a fixed window, with characters that have a meaning in stores: 4 at the beginning", group: "g}:\x00é", odd: true,
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4)},
		wants:  []want{peek(m, 7, 6, 59*m, 59*m)},
	},
	{
		name: "long", means: "10 per hour, a fixed window, of a key of 600 bytes: 4 at the beginning, and a call of 1", long: true,
		limits: []rule.Limit{{Algorithm: rule.FixedWindow, Quota: 10, Window: hour}},
		steps:  []step{take(0, 4), {op: rule.Take, cost: 1, id: "call-1", once: true}},
		wants: []want{
			peek(m, 6, 5, 59*m, 59*m), {step: step{after: m, op: rule.Take, cost: 1, id: "call-1", once: true}, allowed: true, flags: rule.Repeated, granted: 1},
		},
	},
	{name: "rulings", means: "a document", document: "any \x00\xff bytes"},
}
