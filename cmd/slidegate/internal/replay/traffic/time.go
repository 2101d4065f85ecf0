package traffic

import (
	"bytes"
	"strconv"
	"time"

	"github.com/slidegate/slidegate/rule"
)

const second = rule.Micros(1e6)

// clock parses the times in logs. Since lines are nearly in order of time, it caches the last day, the part that takes
// longest to compute. It is not safe for concurrent use. The zero value is ready to use.
type clock struct {
	clfDay   [len("02/Jan/2006")]byte
	clfStart rule.Micros
	isoDay   [len("2006-01-02")]byte
	isoStart rule.Micros
}

// clf parses "02/Jan/2006:15:04:05 -0700", the time of the Common Log Format, and "02/Jan/2006:15:04:05.999", that of
// HAProxy, which has no zone and is read as UTC.
func (c *clock) clf(text []byte) (rule.Micros, bool) {
	const size = len("02/Jan/2006:15:04:05")
	if len(text) < size || text[11] != ':' {
		return 0, false
	}
	if day := [11]byte(text); day != c.clfDay {
		start, ok := startOfDay(fourDigits(text[7:]), monthOf([3]byte(text[3:])), twoDigits(text))
		if !ok || text[2] != '/' || text[6] != '/' {
			return 0, false
		}
		c.clfDay, c.clfStart = day, start
	}
	inDay, ok := timeOfDay(text[12:size])
	if !ok || len(text) == size {
		return c.clfStart + inDay, ok
	}
	if text[size] == ' ' {
		offset, ok := zone(text[size+1:])
		return c.clfStart + inDay - offset, ok
	}
	part, rest, ok := fraction(text[size:])
	return c.clfStart + inDay + part, ok && len(rest) == 0
}

// rfc3339 parses "2006-01-02T15:04:05.999999999Z07:00". It also accepts some common deviations: a space for the T, a
// comma for the point, and a zone without the colon. A time without a zone is rejected, because it is ambiguous.
func (c *clock) rfc3339(text []byte) (rule.Micros, bool) {
	if len(text) < len("2006-01-02T15:04:05Z") {
		return 0, false
	}
	if day := [10]byte(text); day != c.isoDay {
		start, ok := startOfDay(fourDigits(text), time.Month(twoDigits(text[5:])), twoDigits(text[8:]))
		if !ok || text[4] != '-' || text[7] != '-' {
			return 0, false
		}
		c.isoDay, c.isoStart = day, start
	}
	if t := text[10]; t != 'T' && t != 't' && t != ' ' {
		return 0, false
	}
	inDay, ok := timeOfDay(text[11:19])
	if !ok {
		return 0, false
	}
	part, rest, ok := fraction(text[19:])
	if !ok {
		return 0, false
	}
	at := c.isoStart + inDay + part
	if len(rest) == 1 && (rest[0] == 'Z' || rest[0] == 'z') {
		return at, true
	}
	if len(rest) == len("-07:00") && rest[3] == ':' {
		rest = []byte{rest[0], rest[1], rest[2], rest[4], rest[5]}
	}
	offset, ok := zone(rest)
	return at - offset, ok
}

// fraction parses an optional fraction of a second, truncated to microseconds, and returns the rest of text.
func fraction(text []byte) (part rule.Micros, rest []byte, ok bool) {
	if text[0] != '.' && text[0] != ',' {
		return 0, text, true
	}
	i, unit := 1, second/10
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		part += rule.Micros(text[i]-'0') * unit
		unit /= 10
	}
	return part, text[i:], i > 1
}

// timeOfDay parses "15:04:05". Leap seconds are rejected, as in package time.
func timeOfDay(text []byte) (rule.Micros, bool) {
	h, m, s := twoDigits(text), twoDigits(text[3:]), twoDigits(text[6:])
	ok := text[2] == ':' && text[5] == ':' && h < 24 && m < 60 && s < 60
	return rule.Micros(h*3600+m*60+s) * second, ok
}

// zone parses "-0700". Like package time, it accepts 24 hours and 60 minutes.
func zone(text []byte) (rule.Micros, bool) {
	if len(text) != 5 {
		return 0, false
	}
	h, m := twoDigits(text[1:]), twoDigits(text[3:])
	offset := rule.Micros(h*3600+m*60) * second
	if text[0] == '-' {
		return -offset, h <= 24 && m <= 60
	}
	return offset, text[0] == '+' && h <= 24 && m <= 60
}

func startOfDay(year int, month time.Month, day int) (rule.Micros, bool) {
	start := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	// Package time normalizes April 31 to May 1; in a log it is an error.
	ok := year < 10_000 && start.Month() == month && start.Day() == day
	return rule.Micros(start.UnixMicro()), ok
}

func monthOf(name [3]byte) time.Month {
	for month := time.January; month <= time.December; month++ {
		if string(name[:]) == month.String()[:3] {
			return month
		}
	}
	return 0
}

// twoDigits returns 100, which is invalid in every field of a time, if text does not begin with two digits.
func twoDigits(text []byte) int {
	high, low := text[0]-'0', text[1]-'0'
	if high > 9 || low > 9 {
		return 100
	}
	return int(high)*10 + int(low)
}

// fourDigits returns 10000, which is an invalid year here, if text does not begin with four digits.
func fourDigits(text []byte) int {
	high, low := twoDigits(text), twoDigits(text[2:])
	if high > 99 || low > 99 {
		return 10_000
	}
	return high*100 + low
}

// parse parses a time in RFC 3339 or in the Common Log Format, or a number whose magnitude determines its unit. Seconds,
// milliseconds, microseconds and nanoseconds since the epoch differ by factors of a thousand, so for times since 1973 the
// unit is unambiguous.
func (c *clock) parse(text []byte) (rule.Micros, bool) {
	switch {
	case len(text) == len("02/Jan/2006:15:04:05 -0700") && text[20] == ' ':
		return c.clf(text)
	case len(text) > 4 && text[4] == '-':
		return c.rfc3339(text)
	}
	size, _, ok := decimal(text, 0)
	if !ok {
		return 0, false
	}
	scale := -3
	switch {
	case size < 1e11:
		scale = 6
	case size < 1e14:
		scale = 3
	case size < 1e17:
		scale = 0
	}
	at, _, ok := decimal(text, scale)
	return rule.Micros(at), ok
}

// decimal parses a JSON number, times ten to the power of scale. A remaining fraction is truncated, and whole is then
// false. It is exact: it does not use floating point, in which a time in microseconds barely fits.
func decimal(text []byte, scale int) (n int64, whole, ok bool) {
	text, negative := bytes.CutPrefix(text, []byte{'-'})
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		power, err := strconv.ParseInt(string(text[i+1:]), 10, 16)
		if err != nil {
			return 0, false, false
		}
		text, scale = text[:i], scale+int(power)
	}
	integer, fraction, hasPoint := bytes.Cut(text, []byte{'.'})
	if len(integer) == 0 || hasPoint && len(fraction) == 0 {
		return 0, false, false
	}
	var buf [48]byte
	digits := append(append(buf[:0], integer...), fraction...)
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, false, false
		}
	}
	digits = bytes.TrimLeft(digits, "0")
	kept := max(0, len(digits)-len(fraction)+scale)
	if len(digits) == 0 || kept == 0 {
		return 0, len(digits) == 0, true
	}
	if kept > len("9223372036854775807") {
		return 0, false, false
	}
	for len(digits) < kept {
		digits = append(digits, '0')
	}
	n, err := strconv.ParseInt(string(digits[:kept]), 10, 64)
	if negative {
		n = -n
	}
	return n, len(bytes.Trim(digits[kept:], "0")) == 0, err == nil
}
