package config

import (
	"net/http"

	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/match"
)

// checkLiveCost returns an error about the option if the cost is not valid for live requests.
func checkLiveCost(option string, cost fields.Cost) error {
	if field, named := cost.Field(); named && field.Kind != fields.Header {
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
		return p.Cost.Of, nil
	}
	matcher, err := match.New(p.Patterns()...)
	if err != nil {
		return nil, p.withPolicy(invalid("match", "%w", err))
	}
	costs := make([]fields.Cost, len(p.Match))
	for i := range costs {
		costs[i] = p.CostAt(i)
	}
	return func(r *http.Request) int64 {
		var buffer [4]int
		indexes := matcher.AppendIndexes(buffer[:0], r)
		if len(indexes) == 0 { // the policy was selected by its name
			return p.Cost.Of(r)
		}
		// A path with several readings costs the most of them, so that no spelling makes a request cheaper.
		var highest int64
		for _, index := range indexes {
			highest = max(highest, costs[index].Of(r))
		}
		return highest
	}, nil
}
