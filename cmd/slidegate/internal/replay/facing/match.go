package facing

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
)

// Known is what a log tells about requests.
type Known struct{ Method, Host, Path, Address bool }

// Request is a recorded request, with what the log tells of it. A nil field is one that this request does not have.
type Request struct {
	Method []byte
	Host   []byte
	Path   []byte // without the query
}

func newPattern(of *config.Policy) (p pattern, err error) {
	if p.matcher, err = httplimit.NewMatcher(of.Patterns()...); err != nil || p.matcher == nil {
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

// Patterns are what the match of a policy says, by themselves. NewPatterns makes them.
type Patterns struct{ pattern }

// NewPatterns returns the patterns of a match.
func NewPatterns(match []config.Route) (*Patterns, error) {
	p, err := newPattern(&config.Policy{Match: match})
	return &Patterns{p}, err
}

// Matches reports whether one of the patterns is for r, in a log that tells this much.
func (p *Patterns) Matches(r Request, known Known) bool { return len(p.places(r, known)) > 0 }

// Faced is a policy that a request faces.
type Faced struct {
	Policy int
	Route  int // the place in the policy's Match of the pattern that decides about the cost; -1 if there is none
}

// maxRemembered bounds how many requests a Finder remembers the policies of.
const maxRemembered = 1 << 15

// Finder finds the policies that the requests of one log face. It is not safe for concurrent use. NewFinder makes it.
type Finder struct {
	policies   *Policies
	taken      []int   // the policies that are replayed
	all        []Faced // the same, as they are faced where none has a pattern
	known      Known
	matches    bool // a policy has a pattern
	remembered map[string][]Faced
	name       []byte
}

// NewFinder returns a Finder over some of the policies for a log that tells this much about requests.
func (p *Policies) NewFinder(known Known, taken []int) *Finder {
	f := &Finder{policies: p, taken: taken, known: known, remembered: map[string][]Faced{}}
	for _, i := range taken {
		f.matches = f.matches || p.list[i].matcher != nil
		f.all = append(f.all, Faced{i, -1})
	}
	return f
}

// Find returns the policies that r faces, in the order of the file. They are shared and must not be changed.
func (f *Finder) Find(r Request) []Faced {
	if !f.matches {
		return f.all
	}
	f.name = append(append(f.name[:0], r.Method...), ' ')
	f.name = append(append(f.name, r.Host...), ' ')
	f.name = append(f.name, r.Path...)
	found, ok := f.remembered[string(f.name)]
	if !ok {
		found = f.find(r)
		if len(f.remembered) >= maxRemembered {
			clear(f.remembered)
		}
		f.remembered[string(f.name)] = found
	}
	return found
}

func (f *Finder) find(r Request) (found []Faced) {
	for _, i := range f.taken {
		faced := f.policies.list[i]
		if faced.matcher == nil {
			found = append(found, Faced{i, -1})
		} else if places := faced.places(r, f.known); len(places) > 0 {
			found = append(found, Faced{i, faced.costliest(places)})
		}
	}
	return found
}

// costliest returns the place at which a request costs most, as the service has it where a path can be read in several ways.
func (f *facedPolicy) costliest(places []int) int {
	most, units := places[0], int64(-1)
	for _, place := range places {
		if fixed, ok := f.CostAt(place).Fixed(); ok && fixed > units {
			most, units = place, fixed
		}
	}
	return most
}

// places returns the places of the patterns that decide about r. What the log never tells is taken as fitting.
func (p *pattern) places(r Request, known Known) (places []int) {
	for _, made := range p.samples {
		if known.Method {
			if r.Method == nil {
				return nil
			}
			made.method = string(r.Method)
		}
		if known.Host {
			made.host = string(r.Host)
		}
		if known.Path {
			made.path = string(r.Path)
		}
		target, ok := Target(made.path)
		if !ok {
			return nil
		}
		if target.Host != "" && !known.Host { // a request to a proxy names it in its target
			made.host = target.Host
		}
		asked := &http.Request{Method: made.method, Host: made.host, URL: target, RequestURI: made.path}
		if places = p.matcher.AppendPlaces(places, asked); len(places) > 0 {
			break
		}
	}
	return places
}

// Target reads what a request asks for as the service does: without the fragment, which servers leave out when they
// route.
func Target(path string) (target *url.URL, ok bool) {
	path, _, _ = strings.Cut(path, "#")
	target, err := url.ParseRequestURI(path)
	return target, err == nil
}

// Notes returns what a log that tells this much cannot say about the policies, one sentence each: figures that rest on it
// are not the service's.
func (p *Policies) Notes(known Known, taken []int) (notes []string) {
	for _, i := range taken {
		faced := p.list[i]
		var unknown []string
		for _, part := range []struct {
			name          string
			needed, known bool
		}{{"method", faced.needs.Method, known.Method}, {"host", faced.needs.Host, known.Host}, {"path", faced.needs.Path, known.Path}} {
			if part.needed && !part.known {
				unknown = append(unknown, part.name)
			}
		}
		if len(unknown) > 0 {
			notes = append(notes, "The log has no "+strings.Join(unknown, " and no ")+", so "+strings.Join(faced.Patterns(), ", ")+" of the policy "+faced.Name+
				" was matched without it: requests may be counted that the service would not count.")
		}
		if !known.Address && len(faced.Allow.Addresses)+len(faced.Deny.Addresses) > 0 {
			notes = append(notes, "The log has no addresses, so those on the lists of the policy "+faced.Name+" were found nowhere.")
		}
		if faced.revealed {
			notes = append(notes, "The policy "+faced.Name+" is in the shadow: the service refuses nobody by it. The figures say what it would refuse.")
		}
		if faced.slots {
			notes = append(notes, "The in-flight limits of the policy "+faced.Name+" were left out: replay does not know how long requests took.")
		}
		if faced.Penalty > 0 {
			notes = append(notes, "The penalty of the policy "+faced.Name+" was not replayed: the service would keep keys out for "+
				faced.Penalty.String()+" after an excess, and so deny more.")
		}
		if len(faced.Candidate) > 0 {
			notes = append(notes, "The candidate of the policy "+faced.Name+" was not replayed; to see what it would do, make it the limits.")
		}
	}
	return notes
}
