package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/store"
)

// checkTraits: what a store reports about itself is consistent and stays the same, and it supports at least the plainest
// limit.
func checkTraits(t testing.TB, s *suite) {
	p := s.pair(t)
	traits := p.store.Traits()
	if traits.Name == "" || strings.ContainsAny(traits.Name, " \t\n") {
		t.Errorf("Traits.Name: got %q, want one word for metrics and logs", traits.Name)
	}
	if traits.MaxCharges < 1 {
		t.Errorf("Traits.MaxCharges: got %d, want at least 1", traits.MaxCharges)
	}
	if traits.RoundTrips < 0 {
		t.Errorf("Traits.RoundTrips: got %d, want 0 or more", traits.RoundTrips)
	}
	if again := p.store.Traits(); again != traits {
		t.Errorf("Traits: got %+v and then %+v, want the same", traits, again)
	}
	checkAccepts(p)
}

// checkAccepts: a store rejects a limit with ErrUnsupported, always or never, and does not reject all of them.
func checkAccepts(p *pair) {
	for _, limit := range catalogue() {
		bound := p.bind(limit)
		again, err := adapter.Bind(p.namespace+"-again", limit)
		if err != nil {
			p.t.Fatalf("the suite's own limit is invalid: %v", err)
		}
		err = p.store.Check(again)
		if err != nil && !errors.Is(err, store.ErrUnsupported) {
			p.t.Errorf("Check rejects %v with an error that does not wrap ErrUnsupported: %v", limit, err)
		}
		if accepted := bound != nil; accepted != (err == nil) {
			p.t.Errorf("Check of %v: got different results from two calls, want the same", limit)
		}
	}
	if p.bind(slidegate.PerMinute(200)) == nil {
		p.t.Errorf("Check rejects %v; a store that does not support even that cannot be checked", slidegate.PerMinute(200))
	}
}
