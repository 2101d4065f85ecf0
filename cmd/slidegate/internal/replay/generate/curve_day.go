package generate

import "github.com/slidegate/slidegate/rule"

// byHour is the rate at each full hour (UTC) of a working day, in percent of the maximum.
var byHour = [24]uint64{
	18, 13, 10, 8, 8, 11, 18, 30, 46, 62, 74, 82, 86, 92, 98, 100, 97, 90, 80, 72, 64, 52, 38, 27,
}

// A weekend has three fifths of the rate of a working day.
const (
	workingDay = 5
	weekendDay = 3
)

const (
	minuteMicros = rule.Micros(60e6)
	hourMicros   = 60 * minuteMicros
	dayMicros    = 24 * hourMicros
	stepMicros   = 5 * minuteMicros // the rate changes in steps of five minutes
)

// week is a curve that follows the time of day and the day of the week. It has no table, because ten years have a million
// steps.
type week struct{ from, to rule.Micros }

// total does not overflow: ten years of microseconds at the highest rate, 100 * 60 * 5, are less than 2^64.
func (w week) total() (sum uint64) {
	steps := int64((w.to-1)/stepMicros - w.from/stepMicros + 1)
	for i := range steps {
		sum += w.piece(i).weight
	}
	return sum
}

// piece returns a step between two multiples of five minutes; the first and the last one may be shorter.
func (w week) piece(i int64) piece {
	start := (w.from/stepMicros + rule.Micros(i)) * stepMicros
	p := piece{start: max(start, w.from), end: min(start+stepMicros, w.to)}
	p.weight = rate(start) * uint64(p.end-p.start)
	return p
}

// rate returns the rate at a time, interpolated linearly between full hours.
func rate(at rule.Micros) uint64 {
	hour, minute := at/hourMicros%24, uint64(at%hourMicros/minuteMicros)
	perHour := byHour[hour]*(60-minute) + byHour[(hour+1)%24]*minute
	switch (at/dayMicros + 4) % 7 { // the Unix epoch was a Thursday
	case 0, 6:
		return perHour * weekendDay
	default:
		return perHour * workingDay
	}
}
