package resp

import "math"

// parseInt parses an integer with an optional sign. It is strconv.ParseInt without allocating an error.
func parseInt(text []byte) (n int64, ok bool) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	var u uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		if u > math.MaxInt64/10 {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
		if u > math.MaxInt64+1 {
			return 0, false
		}
	}
	if negative {
		return -int64(u), true // also correct for the smallest, which has no positive counterpart
	}
	return int64(u), u <= math.MaxInt64
}
