package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/config/errtext"
)

// maxCost is the largest cost that a limit accepts.
const maxCost = 1<<53 - 1

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
	c, err := parseCost(text)
	if err != nil {
		return Cost{}, &OptionError{Package: "config", Option: "cost", Err: err}
	}
	return c, nil
}

func parseCost(text string) (Cost, error) {
	if units, ok := parseWhole(text); ok {
		if units < 0 || units > maxCost {
			return Cost{}, fmt.Errorf("must be 0 to %d, not %d", int64(maxCost), units)
		}
		return Cost{above: units - 1}, nil
	}
	word, path, _ := strings.Cut(text, ":")
	switch {
	case text == FieldBytes.String():
		return Cost{named: true, field: Field{Kind: FieldBytes}}, nil
	case word == FieldJSON.String():
		field, err := parsePath(FieldJSON, path)
		if err != nil {
			return Cost{}, err
		}
		return Cost{named: true, field: field}, nil
	case word == FieldHeader.String():
		field, err := parseHeader(path)
		if err != nil {
			return Cost{}, err
		}
		return Cost{named: true, field: field}, nil
	}
	hint := errtext.DidYouMean(word, []string{FieldBytes.String(), FieldJSON.String(), FieldHeader.String()})
	return Cost{}, fmt.Errorf("%s is not a cost%s (want a whole number in plain digits, header:NAME, bytes or field:PATH)",
		errtext.Quote(text), hint)
}

// parseWhole reads a whole number in plain digits, which may be grouped (1_000_000). Other notations are rejected because some
// of YAML's are surprising: 010 is eight to some parsers and ten to others.
func parseWhole(text string) (int64, bool) {
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

// Field returns the field that the cost is read from, of the kind FieldBytes, FieldJSON or FieldHeader, if it is not fixed.
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

// MarshalText returns String, so that costs read well in JSON and YAML.
func (c Cost) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the text as ParseCost does.
func (c *Cost) UnmarshalText(text []byte) error {
	parsed, err := ParseCost(string(text))
	if err == nil {
		*c = parsed
	}
	return err
}
