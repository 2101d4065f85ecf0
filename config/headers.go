package config

import (
	"net/http"
	"slices"

	"github.com/slidegate/slidegate/internal/fields"
)

// Headers returns the names of the headers that determine a key, a plan or a cost, in order. A claim is in Authorization. Host is
// not among them: net/http rejects a request with two.
func (f *File) Headers() (names []string) {
	add := func(field fields.Field) {
		name := field.Name
		switch field.Kind {
		case fields.Claim:
			name = "Authorization"
		case fields.Header:
			name = http.CanonicalHeaderKey(name)
		default:
			return
		}
		if name != "Host" {
			names = append(names, name)
		}
	}
	for i := range f.Policies {
		p := &f.Policies[i]
		for _, field := range p.identity() {
			add(field)
		}
		costs := []fields.Cost{p.Cost}
		for route := range p.Match {
			costs = append(costs, p.CostAt(route))
		}
		for _, cost := range costs {
			if field, named := cost.Field(); named {
				add(field)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
