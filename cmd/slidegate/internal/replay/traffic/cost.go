package traffic

import (
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/rule"
)

// notUnits is the reason why a cost is invalid.
const notUnits = "want a whole number from 0 to 9007199254740991"

// costSource is the source of the cost of a request.
type costSource uint8

const (
	costFixed  costSource = iota // the same for all requests
	costOwn                      // the cost in the line, 1 if it has none
	costBytes                    // the bytes of the response
	costValue                    // a value of the entry
	costHeader                   // a header, parsed as in the service, where no request is free
)

// coster finds the cost of each request.
type coster struct {
	source costSource
	fixed  int64
	value  int    // the index in the values of an entry
	name   string // the name of the value, for error messages
}

func (c *coster) of(e *entry) (n int64, why string) {
	if c.source == costFixed {
		return c.fixed, ""
	}
	text := e.values[c.value]
	switch {
	case c.source == costHeader:
		return fields.HeaderCost(string(text)), ""
	case c.source == costOwn && text == nil:
		return 1, ""
	case text == nil:
		return 0, "cost: " + c.name + " is missing"
	case c.source == costBytes && len(text) == 1 && text[0] == '-':
		return 0, "" // servers write "-" if nothing was sent
	}
	n, ok := units(text)
	switch {
	case ok:
		return n, ""
	case c.source == costOwn:
		return 0, "cost: " + notUnits
	}
	return 0, "cost: " + c.name + ": " + notUnits
}

// units parses a cost.
func units(text []byte) (int64, bool) {
	if len(text) == 1 && text[0]-'0' <= 9 { // nearly all costs in lines
		return int64(text[0] - '0'), true
	}
	n, whole, ok := decimal(text, 0)
	return n, ok && whole && n >= 0 && n <= rule.MaxQuota
}
