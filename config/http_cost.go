package config

import (
	"net/http"
	"slices"

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

// httpRoutes returns the cost and skip functions for httplimit; nil if all requests cost 1, and if none is exempt.
func (p *Policy) httpRoutes() (cost func(*http.Request) int64, skip func(*http.Request) bool, err error) {
	if !p.Cost.IsZero() {
		cost = p.Cost.Of
	}
	costs := slices.ContainsFunc(p.Match, func(r Route) bool { return r.Cost != nil })
	exempts := slices.ContainsFunc(p.Match, func(r Route) bool { return r.Unlimited })
	if !costs && !exempts {
		return cost, nil, nil
	}
	matcher, err := match.New(p.Patterns()...)
	if err != nil {
		return nil, nil, p.withPolicy(invalid("match", "%w", err))
	}
	if costs {
		cost = func(r *http.Request) int64 {
			var buffer [4]int
			indexes := matcher.AppendIndexes(buffer[:0], r)
			if len(indexes) == 0 { // the policy was selected by its name
				return p.Cost.Of(r)
			}
			// A path with several readings costs the most of them, so that no spelling makes a request cheaper.
			var highest int64
			for _, index := range indexes {
				highest = max(highest, p.CostAt(index).Of(r))
			}
			return highest
		}
	}
	if exempts {
		skip = func(r *http.Request) bool {
			var buffer [4]int
			return p.Exempts(matcher.AppendIndexes(buffer[:0], r))
		}
	}
	return cost, skip, nil
}
