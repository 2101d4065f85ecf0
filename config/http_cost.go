package config

import (
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/rule"
)

// checkLiveCost returns an error about the option if the cost is not valid for live requests.
func checkLiveCost(option string, cost Cost) error {
	if field, named := cost.Field(); named && field.Kind != FieldHeader {
		return invalid(option, "%v is known in recorded traffic only; write a number, or header:NAME", field)
	}
	return nil
}

// httpCost returns the cost function for httplimit; nil if all requests cost 1.
func (p *Policy) httpCost() (func(*http.Request) int64, error) {
	if !p.hasRouteCosts() {
		if p.Cost.IsZero() {
			return nil, nil
		}
		return p.Cost.unitsOf, nil
	}
	matcher, err := httplimit.NewMatcher(p.Patterns()...)
	if err != nil {
		return nil, p.withPolicy(invalid("match", "%w", err))
	}
	costs := make([]Cost, len(p.Match))
	for i := range costs {
		costs[i] = p.CostAt(i)
	}
	return func(r *http.Request) int64 {
		var buffer [4]int
		indexes := matcher.AppendIndexes(buffer[:0], r)
		if len(indexes) == 0 { // the policy was selected by its name
			return p.Cost.unitsOf(r)
		}
		// A path with several readings costs the most of them, so that no spelling makes a request cheaper.
		var highest int64
		for _, index := range indexes {
			highest = max(highest, costs[index].unitsOf(r))
		}
		return highest
	}, nil
}

// unitsOf returns the cost of a live request. A header counts as a whole number from 1: a client may be able to send it, so
// neither a missing header, nor an invalid one, nor a 0 makes a request free.
func (c Cost) unitsOf(r *http.Request) int64 {
	if units, fixed := c.Fixed(); fixed {
		return units
	}
	highest := int64(1)
	if c.field.Kind == FieldHeader {
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
