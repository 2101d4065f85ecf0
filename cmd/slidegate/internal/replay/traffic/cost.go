package traffic

import (
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// notUnits is the reason why a cost is invalid.
const notUnits = "want a whole number from 0 to 9007199254740991"

// costSource is the source of the cost of a request.
type costSource uint8

const (
	costFixed  costSource = iota // the same for all requests
	costOwn                      // the cost in a line of FormatLines
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
	switch c.source {
	case costFixed:
		return c.fixed, ""
	case costOwn:
		return e.cost, ""
	}
	text := e.values[c.value]
	if c.source == costHeader {
		return config.HeaderCost(string(text)), ""
	}
	if text == nil {
		return 0, "cost: " + c.name + " is missing"
	}
	if c.source == costBytes && len(text) == 1 && text[0] == '-' {
		return 0, "" // servers write "-" if nothing was sent
	}
	n, ok := units(text)
	if !ok {
		return 0, "cost: " + c.name + ": " + notUnits
	}
	return n, ""
}

// units parses a cost.
func units(text []byte) (int64, bool) {
	n, whole, ok := decimal(text, 0)
	return n, ok && whole && n >= 0 && n <= rule.MaxQuota
}
