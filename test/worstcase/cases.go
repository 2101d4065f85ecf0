package worstcase

import (
	"fmt"

	"github.com/slidegate/slidegate/rule"
)

// Case is one row of the table: a limit, with windows that start by the clock and, if that is an option, with the first
// request; or, without an algorithm, in parts and with a small quota as a log.
type Case struct {
	Name   string
	When   string // when to choose it
	Limits []rule.Limit
}

// segmentsInTable are the numbers of segments in the table: the classic pair of counters, and finer ones.
var segmentsInTable = []int{1, 2, 6, 60}

// whenUp, whenDown and whenWhole describe when to choose a sliding window, by overlap and by index in segmentsInTable.
var (
	whenUp = []string{
		"the least memory, fair to steady traffic",
		"–", "a good middle", "–",
	}
	whenDown = []string{
		"to match limiters that round down",
		"the same", "the same", "the same",
	}
	whenWhole = []string{
		"a hard cap in the least memory",
		"a hard cap", "a hard cap",
		"the same",
	}
)

// Cases returns the rows of the table for a quota.
func Cases(quota int64) []Case {
	inLog := normalize(rule.Limit{Quota: quota})
	inParts := inLog
	inParts.Lease = true // whatever the quota
	cases := []Case{{Name: "no algorithm named", When: "a hard cap for any quota: the default", Limits: []rule.Limit{inParts, inLog}}}
	for _, overlap := range []rule.Overlap{rule.OverlapUp, rule.OverlapDown, rule.OverlapWhole} {
		when := [][]string{whenUp, whenDown, whenWhole}[overlap]
		for i, segments := range segmentsInTable {
			l := rule.Limit{Algorithm: rule.SlidingWindow, Overlap: overlap, Segments: segments, Quota: quota}
			name := fmt.Sprintf("`%s`, `%s`, %d segments", l.Algorithm, overlap, segments)
			if segments == 1 {
				name = fmt.Sprintf("`%s`, `%s`, 1 segment", l.Algorithm, overlap)
			}
			cases = append(cases, Case{Name: name, When: when[i], Limits: bothAnchors(l)})
		}
	}
	burst := max(1, quota/10)
	return append(cases,
		Case{
			Name: "`sliding-log`", When: "a hard cap, exact to the microsecond, for quotas up to 10,000",
			Limits: []rule.Limit{normalize(rule.Limit{Algorithm: rule.SlidingLog, Quota: quota})},
		},
		Case{
			Name: "`fixed-window`", When: "to compare with a fixed window or migrate from one",
			Limits: bothAnchors(rule.Limit{Algorithm: rule.FixedWindow, Quota: quota}),
		},
		Case{
			Name: "`token-bucket`, burst = quota", When: "for traffic that may burst, refilled evenly",
			Limits: []rule.Limit{normalize(rule.Limit{Algorithm: rule.TokenBucket, Quota: quota})},
		},
		Case{
			Name: "`token-bucket`, burst = quota/10", When: "the same with small bursts: close to the quota in any window",
			Limits: []rule.Limit{normalize(rule.Limit{Algorithm: rule.TokenBucket, Quota: quota, Burst: burst})},
		},
	)
}

func bothAnchors(l rule.Limit) []rule.Limit {
	byClock, byFirst := l, l
	byClock.Anchor, byFirst.Anchor = rule.AnchorClock, rule.AnchorFirst
	return []rule.Limit{normalize(byClock), normalize(byFirst)}
}

// normalize fills in the window and the defaults. The limits here are constants, so an invalid one is a bug.
func normalize(l rule.Limit) rule.Limit {
	l.Window = Window
	l, err := l.Normalize()
	if err != nil {
		panic(err)
	}
	return l
}
