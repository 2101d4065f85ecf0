package routing

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/match"
)

// Known reports which properties of a request a log records.
type Known struct{ Method, Host, Path, Address bool }

// Request is a recorded request. A field that this request does not have is nil.
type Request struct {
	Method []byte
	Host   []byte
	Path   []byte // without the query
}

func newPattern(of *config.Policy) (p pattern, err error) {
	if p.matcher, err = match.New(of.Patterns()...); err != nil || p.matcher == nil {
		return p, err
	}
	for _, text := range of.Patterns() {
		before, _, _ := strings.Cut(text, "/")
		method, host, hasMethod := strings.Cut(before, " ")
		if !hasMethod {
			host = method
		}
		p.needs.Method, p.needs.Host = p.needs.Method || hasMethod, p.needs.Host || strings.TrimSpace(host) != ""
	}
	p.needs.Path = true
	for _, r := range p.matcher.Samples() {
		p.samples = append(p.samples, sample{r.Method, r.Host, r.URL.EscapedPath()})
	}
	return p, nil
}

// Patterns holds the patterns of a policy's match. The zero value is not usable; call NewPatterns.
type Patterns struct{ pattern }

// NewPatterns returns the patterns of a match.
func NewPatterns(match []config.Route) (*Patterns, error) {
	p, err := newPattern(&config.Policy{Match: match})
	return &Patterns{p}, err
}

// Matches reports whether one of the patterns matches r, a request from a log that records the properties in known.
func (p *Patterns) Matches(r Request, known Known) bool { return len(p.indexes(r, known)) > 0 }

// Applied is a policy that applies to a request.
type Applied struct {
	Policy int
	Route  int // the index in the policy's Match of the pattern that determines the cost; -1 if there is none
}

// maxCached is the maximum number of different requests for which a Finder caches the policies.
const maxCached = 1 << 15

// Finder finds the policies that apply to the requests of one log. It is not safe for concurrent use. The zero value is
// not usable; call NewFinder.
type Finder struct {
	policies *Policies
	replayed []int     // the replayed policies
	all      []Applied // the result of Find if no policy has a pattern
	known    Known
	matches  bool // a policy has a pattern
	cache    map[string][]Applied
	name     []byte
}

// NewFinder returns a Finder over the policies with the indexes replayed, for a log that records the properties in
// known.
func (p *Policies) NewFinder(known Known, replayed []int) *Finder {
	f := &Finder{policies: p, replayed: replayed, known: known, cache: map[string][]Applied{}}
	for _, i := range replayed {
		f.matches = f.matches || p.list[i].matcher != nil
		f.all = append(f.all, Applied{i, -1})
	}
	return f
}

// Find returns the policies that apply to r, in the order of the file. The slice is shared and must not be modified.
func (f *Finder) Find(r Request) []Applied {
	if !f.matches {
		return f.all
	}
	f.name = append(append(f.name[:0], r.Method...), ' ')
	f.name = append(append(f.name, r.Host...), ' ')
	f.name = append(f.name, r.Path...)
	found, ok := f.cache[string(f.name)]
	if !ok {
		found = f.find(r)
		if len(f.cache) >= maxCached {
			clear(f.cache)
		}
		f.cache[string(f.name)] = found
	}
	return found
}

func (f *Finder) find(r Request) (found []Applied) {
	for _, i := range f.replayed {
		c := f.policies.list[i]
		if c.matcher == nil {
			found = append(found, Applied{i, -1})
		} else if indexes := c.indexes(r, f.known); len(indexes) > 0 && !c.Exempts(indexes) {
			found = append(found, Applied{i, c.costliest(indexes)})
		}
	}
	return found
}

// costliest returns the index of the pattern with the highest cost, which is the one that the service uses if a path can
// be read in several ways.
func (f *compiled) costliest(indexes []int) int {
	most, units := indexes[0], int64(-1)
	for _, index := range indexes {
		if fixed, ok := f.CostAt(index).Fixed(); ok && fixed > units {
			most, units = index, fixed
		}
	}
	return most
}

// matching returns the indexes of the patterns that match r. Patterns are assumed to match what the log does not
// record.
func (p *pattern) indexes(r Request, known Known) (indexes []int) {
	for _, request := range p.samples {
		if known.Method {
			if r.Method == nil {
				return nil
			}
			request.method = string(r.Method)
		}
		if known.Host {
			request.host = string(r.Host)
		}
		if known.Path {
			request.path = string(r.Path)
		}
		target, ok := Target(request.path)
		if !ok {
			return nil
		}
		if target.Host != "" && !known.Host { // a request to a proxy has the host in its target
			request.host = target.Host
		}
		httpRequest := &http.Request{Method: request.method, Host: request.host, URL: target, RequestURI: request.path}
		if indexes = p.matcher.AppendIndexes(indexes, httpRequest); len(indexes) > 0 {
			break
		}
	}
	return indexes
}

// Target parses a request target as the service does.
func Target(path string) (target *url.URL, ok bool) {
	target, err := url.ParseRequestURI(path)
	return target, err == nil
}

// Notes returns what a log that records only the properties in known does not show about the policies, one sentence
// each. Figures that depend on it may differ from those of the service.
func (p *Policies) Notes(known Known, replayed []int) (notes []string) {
	for _, i := range replayed {
		c := p.list[i]
		var unknown []string
		for _, part := range []struct {
			name          string
			needed, known bool
		}{{"method", c.needs.Method, known.Method}, {"host", c.needs.Host, known.Host}, {"path", c.needs.Path, known.Path}} {
			if part.needed && !part.known {
				unknown = append(unknown, part.name)
			}
		}
		if len(unknown) > 0 {
			notes = append(notes, "The log has no "+strings.Join(unknown, " and no ")+", so "+strings.Join(c.Patterns(), ", ")+" of the policy "+c.Name+
				" was matched without it: requests may be counted that the service would not count.")
		}
		if !known.Address && len(c.Allow.Addresses)+len(c.Block.Addresses) > 0 {
			notes = append(notes, "The log has no addresses, so the addresses on the lists of the policy "+c.Name+" matched no request.")
		}
		if c.shadowEnforced {
			notes = append(notes, "The policy "+c.Name+" is a shadow policy: the service refuses nothing because of it. The figures show what it would refuse.")
		}
		if c.slots {
			notes = append(notes, "The in-flight limits of the policy "+c.Name+" were left out: replay does not know how long requests took.")
		}
		if c.Penalty > 0 {
			notes = append(notes, "The penalty of the policy "+c.Name+" was not replayed: the service would refuse keys for "+
				c.Penalty.String()+" after an excess, and so refuse more.")
		}
	}
	return notes
}
