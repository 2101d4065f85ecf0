package facing

import (
	"net/http"
	"net/url"
	"strings"

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

func newPattern(text string) (p pattern, err error) {
	if p.matcher, err = httplimit.NewMatcher(text); err != nil || p.matcher == nil {
		return p, err
	}
	before, _, _ := strings.Cut(text, "/")
	method, host, hasMethod := strings.Cut(before, " ")
	if !hasMethod {
		host = method
	}
	p.needs = Known{Method: hasMethod, Host: strings.TrimSpace(host) != "", Path: true}
	r := p.matcher.Sample()
	p.sample = sample{r.Method, r.Host, r.URL.EscapedPath()}
	return p, nil
}

// Pattern is a pattern by itself. NewPattern makes it.
type Pattern struct{ pattern }

// NewPattern returns the pattern that match of a policy would be.
func NewPattern(match string) (*Pattern, error) {
	p, err := newPattern(match)
	return &Pattern{p}, err
}

// Matches reports whether the pattern is for r, in a log that tells this much.
func (p *Pattern) Matches(r Request, known Known) bool { return p.matches(r, known) }

// maxRemembered bounds how many requests a Finder remembers the policies of.
const maxRemembered = 1 << 15

// Finder finds the policies that the requests of one log face. It is not safe for concurrent use. NewFinder makes it.
type Finder struct {
	policies   *Policies
	taken      []int // the policies that are replayed
	known      Known
	matches    bool // a policy has a pattern
	remembered map[string][]int
	name       []byte
}

// NewFinder returns a Finder over some of the policies for a log that tells this much about requests.
func (p *Policies) NewFinder(known Known, taken []int) *Finder {
	f := &Finder{policies: p, taken: taken, known: known, remembered: map[string][]int{}}
	for _, i := range taken {
		f.matches = f.matches || p.list[i].matcher != nil
	}
	return f
}

// Find returns the policies that r faces, in the order of the file. They are shared and must not be changed.
func (f *Finder) Find(r Request) []int {
	if !f.matches {
		return f.taken
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

func (f *Finder) find(r Request) (found []int) {
	for _, i := range f.taken {
		if f.policies.list[i].matches(r, f.known) {
			found = append(found, i)
		}
	}
	return found
}

// matches reports whether the pattern is for r. What the log never tells is taken as fitting.
func (p *pattern) matches(r Request, known Known) bool {
	if p.matcher == nil {
		return true
	}
	made := p.sample
	if known.Method {
		if r.Method == nil {
			return false
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
		return false
	}
	if target.Host != "" && !known.Host { // a request to a proxy names it in its target
		made.host = target.Host
	}
	return p.matcher.Match(&http.Request{Method: made.method, Host: made.host, URL: target, RequestURI: made.path})
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
			notes = append(notes, "The log has no "+strings.Join(unknown, " and no ")+", so "+faced.Match+" of the policy "+faced.Name+
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
		if len(faced.Candidate) > 0 {
			notes = append(notes, "The candidate of the policy "+faced.Name+" was not replayed; to see what it would do, make it the limits.")
		}
	}
	return notes
}
