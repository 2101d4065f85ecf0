package gate

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/store"
)

// policy is a config.Policy made ready. It does not change.
type policy struct {
	config.Policy
	mode     int // what happens when the store cannot answer
	store    store.Store
	mux      *http.ServeMux // knows Match; nil if that is empty
	fields   []config.Field // of Key
	fixed    int64          // Cost
	tally    *tally
	plain    *rules
	exact    map[string]*rules // overrides by key,
	patterns []*rules          // and by pattern, in the order of the file
	allow    *list
	deny     *list

	// candidate are limits that are counted for themselves, in a namespace that no policy can have.
	candidate []*store.Limit
}

// rules are what some keys of a policy face: its limits, or those of an override.
type rules struct {
	limiter  *slidegate.Limiter // nil if there is no limit
	bound    []*store.Limit
	limits   []slidegate.Limit
	override string // the key or pattern; "" for the policy's own
	place    int    // which override it is: the first that fits decides
}

// ofKey returns the rules that a key faces.
func (p *policy) ofKey(key string) *rules {
	if p.exact == nil && p.patterns == nil {
		return p.plain
	}
	found := p.exact[key]
	for _, r := range p.patterns {
		if found != nil && found.place < r.place {
			break
		}
		if config.MatchKey(r.override, key) {
			return r
		}
	}
	if found != nil {
		return found
	}
	return p.plain
}

// route finds what decides about a key: a list, or else the rules that are returned.
func (p *policy) route(key string, addr netip.Addr) (*rules, By) {
	if p.deny.has(key, addr) {
		return nil, ByDenyList
	}
	if p.allow.has(key, addr) {
		return nil, ByAllowList
	}
	r := p.ofKey(key)
	if r.limiter == nil {
		return r, ByUnlimited
	}
	return r, ByLimits
}

// plainHost returns r with the host as patterns have it, in lower case and without a dot at its end: other spellings of it
// must not be a way around a limit. The port is left as it is.
func plainHost(r *http.Request) *http.Request {
	name, port := r.Host, ""
	if colon := strings.LastIndexByte(name, ':'); colon >= 0 && !strings.HasSuffix(name, "]") {
		name, port = name[:colon], name[colon:]
	}
	plain := strings.ToLower(strings.TrimSuffix(name, "."))
	if plain == name {
		return r
	}
	seen := *r
	seen.Host = plain + port
	return &seen
}

// matches tells whether the policy is for this request. A path in which slashes or dots are percent-encoded can be read in
// two ways, and it is the application that chooses: the policy is for the request if either of them fits.
func (p *policy) matches(r *http.Request) bool {
	if p.mux == nil {
		return true
	}
	_, pattern := p.mux.Handler(r)
	if pattern == "" && r.URL.RawPath != "" {
		decoded, target := *r, *r.URL
		target.RawPath = ""
		decoded.URL = &target
		_, pattern = p.mux.Handler(&decoded)
	}
	return pattern != ""
}

// newMatch returns a mux that knows one pattern.
func newMatch(pattern string) (mux *http.ServeMux, err error) {
	defer func() {
		if wrong := recover(); wrong != nil { // that is how ServeMux tells
			err = invalid("match", "%q: %v", pattern, wrong)
		}
	}()
	mux = http.NewServeMux()
	mux.Handle(pattern, http.NotFoundHandler())
	return mux, nil
}
