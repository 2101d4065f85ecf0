package traffic

import "github.com/slidegate/slidegate/rule"

// parse parses a time in RFC 3339 or in the Common Log Format, or a number whose magnitude determines its unit. Seconds,
// milliseconds, microseconds and nanoseconds since the epoch differ by factors of a thousand, so for times since 1973 the
// unit is unambiguous.
func (c *clock) parse(text []byte) (rule.Micros, bool) {
	if at, ok := c.rfc3339(text); ok {
		return at, true
	}
	if at, ok := c.clf(text); ok {
		return at, true
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
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	number, scale, rest, whole, ok := mantissa(text, scale)
	if !ok {
		return 0, false, false
	}
	if len(rest) > 0 {
		power, ok := exponent(rest)
		if !ok {
			return 0, false, false
		}
		scale += power
	}
	number, exact, ok := shift(number, scale)
	if n = int64(number); negative {
		n = -n
	}
	return n, whole && exact, ok
}

// mantissa parses digits with an optional point, and returns them as a whole number that is to be multiplied by ten to
// the power of newScale. Digits that do not fit are dropped, and whole is then false unless they were zeros.
func mantissa(text []byte, scale int) (number uint64, newScale int, rest []byte, whole, ok bool) {
	const roomForOneMore = (1<<63 - 1 - 9) / 10
	whole = true
	digits, point := 0, false // digits before the point or after it
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && !point && digits > 0 {
			digits, point = 0, true
			continue
		}
		if c-'0' > 9 {
			break
		}
		digits++
		fits := number <= roomForOneMore
		if fits {
			number = number*10 + uint64(c-'0')
		} else if c != '0' {
			whole = false
		}
		if fits && point {
			scale--
		} else if !fits && !point {
			scale++
		}
	}
	return number, scale, text[i:], whole, digits > 0
}

// exponent parses "e-3". Huge exponents are clamped, since no valid number has them.
func exponent(text []byte) (power int, ok bool) {
	if len(text) < 2 || text[0]|0x20 != 'e' {
		return 0, false
	}
	text = text[1:]
	sign := 1
	if text[0] == '-' || text[0] == '+' {
		if text[0] == '-' {
			sign = -1
		}
		text = text[1:]
	}
	for _, c := range text {
		if c-'0' > 9 {
			return 0, false
		}
		power = min(power*10+int(c-'0'), 1_000_000_000)
	}
	return sign * power, len(text) > 0
}

// shift multiplies number by ten to the power of scale. It reports whether the result is exact, and whether it fits.
func shift(number uint64, scale int) (result uint64, exact, ok bool) {
	if number == 0 {
		return 0, true, true
	}
	for ; scale > 0; scale-- {
		if number > (1<<63-1)/10 {
			return 0, false, false
		}
		number *= 10
	}
	exact = true
	for ; scale < 0 && number > 0; scale++ {
		exact = exact && number%10 == 0
		number /= 10
	}
	return number, exact, true
}
