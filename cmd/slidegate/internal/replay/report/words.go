package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// number formats n in groups of three digits: 1,234,567.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// count formats n with its noun, in the plural unless n is 1: "1 key", "2 keys".
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// percent formats part of whole with the significant digits. It returns 0 % and 100 % only for exactly none and all,
// because "0 % refused" of a million requests could hide five thousand refused ones.
func percent(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0 %"
	}
	if part == whole {
		return "100 %"
	}
	return percentText(100 * float64(part) / float64(whole))
}

// percentText formats a percentage other than 0 and 100 as percent does.
func percentText(p float64) string {
	switch {
	case p < 0.01:
		return "< 0.01 %"
	case p < 0.095: // which would be 0.1 with one digit
		return strconv.FormatFloat(p, 'f', 2, 64) + " %"
	case p > 99.9 && p < 100:
		return "> 99.9 %"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}

// plainPercent formats a percentage that the user chose, such as 1 or 0.5, unchanged.
func plainPercent(p float64) string {
	return strconv.FormatFloat(p, 'f', -1, 64) + " %"
}

// times formats the ratio of part to whole: "1.99 times".
func times(part, whole int64) string {
	if whole <= 0 {
		return "many times"
	}
	ratio := math.Floor(100*float64(part)/float64(whole)) / 100 // 1.999 is not yet twice
	return strconv.FormatFloat(ratio, 'f', -1, 64) + " times"
}

var spanUnits = []struct {
	length rule.Micros
	name   string
}{
	{24 * 3600 * 1e6, "d"}, {3600 * 1e6, "h"}, {60 * 1e6, "m"}, {1e6, "s"},
}

// span formats a duration in its two largest units: 1m 30s, 2h 5m, 350ms. The rest is truncated, so a duration is never
// overstated.
func span(length rule.Micros) string {
	switch {
	case length < 0:
		return "-" + span(-length)
	case length == 0:
		return "0s"
	case length < 1000:
		return strconv.FormatInt(int64(length), 10) + "µs"
	case length < 1e6:
		return strconv.FormatInt(int64(length)/1000, 10) + "ms"
	case length < 10e6 && length%1e6 >= 1e5:
		return fmt.Sprintf("%d.%ds", length/1e6, length%1e6/1e5)
	}
	for i, unit := range spanUnits {
		if length < unit.length {
			continue
		}
		text := strconv.FormatInt(int64(length/unit.length), 10) + unit.name
		if i+1 < len(spanUnits) {
			if rest := length % unit.length / spanUnits[i+1].length; rest > 0 {
				text += " " + strconv.FormatInt(int64(rest), 10) + spanUnits[i+1].name
			}
		}
		return text
	}
	panic("report: a duration without a unit") // the smallest unit is a second, and shorter durations are handled above
}

// timestamp formats a time in UTC, to the second: 2026-11-15 06:48:34. The surrounding text states that it is UTC.
func timestamp(at rule.Micros) string {
	return at.Time().UTC().Format(time.DateTime)
}

// size formats a number of bytes in a suitable unit: 12 B, 3.4 kB, 1.2 MB.
func size(bytes int64) string {
	if bytes < 1000 {
		return strconv.FormatInt(bytes, 10) + " B"
	}
	amount := float64(bytes) / 1000
	for _, unit := range []string{"kB", "MB", "GB"} {
		if amount < 999.5 {
			digits := 1
			if amount >= 100 {
				digits = 0
			}
			return strconv.FormatFloat(amount, 'f', digits, 64) + " " + unit
		}
		amount /= 1000
	}
	return strconv.FormatFloat(amount, 'f', 1, 64) + " TB"
}
