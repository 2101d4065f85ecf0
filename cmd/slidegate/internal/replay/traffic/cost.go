package traffic

import (
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// notUnits is the reason why a cost is refused.
const notUnits = "it is not a whole number from 0 to 9007199254740991"

// costSource is where the cost of a request comes from.
type costSource uint8

const (
	costFixed  costSource = iota // the same for all
	costOwn                      // from the line, which is one of ours
	costBytes                    // the bytes of the answer
	costValue                    // from a value of the entry
	costHeader                   // from a header, which the service reads so that nothing is free
)

// coster finds the cost of each request.
type coster struct {
	source costSource
	fixed  int64
	value  int    // the place in the values of an entry
	name   string // of the value, for reasons
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
		return 0, "" // servers write it where nothing was sent
	}
	n, ok := units(text)
	if !ok {
		return 0, "cost: " + c.name + ": " + notUnits
	}
	return n, ""
}

// units reads a number of units that a request can cost.
func units(text []byte) (int64, bool) {
	n, whole, ok := decimal(text, 0)
	return n, ok && whole && n >= 0 && n <= rule.MaxQuota
}
