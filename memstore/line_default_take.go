package memstore

import (
	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// take implements lineForm. A charge that makes a log parts is left to the slow path.
func (f *defaultForm) take(l *line, h uint64, limit *rule.Limit, clock *clock, cost int64) (
	outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros,
) {
	if control := l[controlWord].Load(); control&inParts == 0 && !limit.StartsInParts(0) && !limit.CountRefused {
		return f.log.take(l, h, limit, clock, cost)
	}
	return quick.Undecided, 0, 0, 0, 0
}
