package fields

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/rule"
)

// MaxCost is the largest cost that a limit accepts.
const MaxCost = 1<<53 - 1

// Cost is how many units a request takes: a fixed number, or a field of the request. It is a plain value and comparable. The
// zero value is a cost of 1.
type Cost struct {
	above int64 // a fixed cost minus one, so that the zero value costs 1
	named bool  // the cost is a field
	field Field
}

// ParseCost reads a cost: a whole number from 0 to 2^53-1 (1_000 is valid too), "bytes" for the size of the response,
// field:PATH for a field of a line of JSON, or header:NAME for a whole number from 1 in a header of the request.
func ParseCost(text string) (Cost, error) {
	if units, ok := ParseWhole(text); ok {
		if units < 0 || units > MaxCost {
			return Cost{}, fmt.Errorf("must be 0 to %d, not %d", int64(MaxCost), units)
		}
		return Cost{above: units - 1}, nil
	}
	word, path, _ := strings.Cut(text, ":")
	switch {
	case text == Bytes.String():
		return Cost{named: true, field: Field{Kind: Bytes}}, nil
	case word == JSON.String():
		field, err := parsePath(JSON, path)
		if err != nil {
			return Cost{}, err
		}
		return Cost{named: true, field: field}, nil
	case word == Header.String():
		field, err := parseHeader(path)
		if err != nil {
			return Cost{}, err
		}
		return Cost{named: true, field: field}, nil
	}
	hint := errtext.DidYouMean(word, []string{Bytes.String(), JSON.String(), Header.String()})
	return Cost{}, fmt.Errorf("%s is not a cost%s (want a whole number in plain digits, header:NAME, bytes or field:PATH)",
		errtext.Quote(text), hint)
}

// ParseWhole reads a whole number in plain digits, which may be grouped (1_000_000). Other notations are rejected because some
// of YAML's are surprising: 010 is eight to some parsers and ten to others.
func ParseWhole(text string) (int64, bool) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || digits[0] == '_' || digits[0] == '0' && digits != "0" || strings.Trim(digits, "0123456789_") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	return n, err == nil
}

// Fixed returns the cost and true if it is fixed.
func (c Cost) Fixed() (units int64, ok bool) {
	if c.named {
		return 0, false
	}
	return c.above + 1, true
}

// Field returns the field that the cost is read from, of the kind Bytes, JSON or Header, if it is not fixed.
func (c Cost) Field() (Field, bool) { return c.field, c.named }

// IsZero reports whether c is the zero value, which is a cost of 1.
func (c Cost) IsZero() bool { return c == Cost{} }

// String returns c as ParseCost reads it.
func (c Cost) String() string {
	if c.named {
		return c.field.String()
	}
	return strconv.FormatInt(c.above+1, 10)
}

// Of returns the cost of a live request. A header counts as a whole number from 1: a client may be able to send it, so
// neither a missing header, nor an invalid one, nor a 0 makes a request free.
func (c Cost) Of(r *http.Request) int64 {
	if units, fixed := c.Fixed(); fixed {
		return units
	}
	highest := int64(1)
	if c.field.Kind == Header {
		for _, text := range r.Header[c.field.Name] { // more than one only if the listener accepts that
			highest = max(highest, HeaderCost(text))
		}
	}
	return highest
}

// HeaderCost returns the cost in the value of a header: a whole number from 1. Anything else counts as 1, and numbers beyond
// what limits accept count as the largest accepted.
func HeaderCost(text string) int64 {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 1
		}
	}
	units, err := strconv.ParseUint(text, 10, 64)
	if text == "" || units == 0 && err == nil {
		return 1
	}
	return int64(min(units, rule.MaxQuota)) // on overflow, it is the largest number
}
