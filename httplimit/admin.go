package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// Peek returns what the next request of a client would be answered under a policy, if it cost one unit, and charges nothing.
// The name is "" if the only policy has none. The key is what the policy's Key returns: "ann" for a ByHeader that finds ann, an
// address for ByAddress, "1:ann" if the second key of a FirstOf does, and "address:203.0.113.7" for a client of that address for
// which Key returns nothing. It is an error if there is no such policy, if the store does not answer, and if what decides depends
// on more than the key: a Plan, unless an override has the key, or Options.Group. Use PeekRequest then. Lists of addresses are
// not looked at.
func (m *Middleware) Peek(ctx context.Context, name, key string) (Event, error) {
	place, err := m.find(name, key)
	if err != nil {
		return Event{}, err
	}
	if m.policies[place].Plan != nil && !m.set.Overridden(place, key) {
		return Event{}, fmt.Errorf("httplimit: policy %q: %w: its limits depend on the request, by Plan; use PeekRequest", name, slidegate.ErrUnsupported)
	}
	return told(m.set.Look(ctx, "", policy.Part{Policy: place, Key: key, Cost: 1}))
}

// Reset forgets what a client has used under a policy, and under its candidate; see Peek for name and key. Where the policy has
// a Plan, the limits of all plans that this middleware has seen are reset. It is an error if there is no such policy, if the
// store does not answer, and with Options.Group, for which there is ResetRequest.
func (m *Middleware) Reset(ctx context.Context, name, key string) error {
	place, err := m.find(name, key)
	if err != nil {
		return err
	}
	return prefixed(m.set.Forget(ctx, "", policy.Part{Policy: place, Key: key}))
}

// PeekRequest returns what a request would be answered, by all policies that it faces, and charges nothing. The request can be
// one that a handler made up, with what Match, Key, Cost and Plan look at. It is an error if it faces no policy, and if the
// store does not answer.
func (m *Middleware) PeekRequest(r *http.Request) (Event, error) {
	parts, group, err := m.parts(r)
	if err != nil {
		return Event{}, err
	}
	return told(m.set.Look(r.Context(), group, parts...))
}

// ResetRequest forgets what the client of a request has used under all policies that the request faces; see PeekRequest.
func (m *Middleware) ResetRequest(r *http.Request) error {
	parts, group, err := m.parts(r)
	if err != nil {
		return err
	}
	return prefixed(m.set.Forget(r.Context(), group, parts...))
}

// Rule puts rulings in place of all that a policy had before: what somebody decides about single clients while the program runs, such
// as to block one until a time. See Peek for the name and for keys, and policy.Set.Rule. They are not kept when the program ends.
func (m *Middleware) Rule(name string, rulings ...policy.Ruling) error {
	place, err := m.set.Find(name)
	if err == nil {
		err = m.set.Rule(place, rulings)
	}
	return prefixed(err)
}

// find returns the place of a policy whose state the key alone addresses.
func (m *Middleware) find(name, key string) (int, error) {
	place, err := m.set.Find(name)
	switch {
	case err != nil:
	case m.opts.Group != nil:
		err = fmt.Errorf("%w: what a key has used depends on the request, by Options.Group; use PeekRequest or ResetRequest", slidegate.ErrUnsupported)
	case key == "" && m.policies[place].named:
		err = fmt.Errorf("policy %q: no client has the empty key; one without a name has a key such as %q", name, addressMark+"203.0.113.7")
	}
	return place, prefixed(err)
}

// parts returns what a request faces.
func (m *Middleware) parts(r *http.Request) (parts []policy.Part, group string, err error) {
	for _, p := range m.policies {
		if p.matches(r) {
			var part policy.Part
			p.part(r, &m.opts, &part)
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil, "", errors.New("httplimit: no policy is for this request; see Match and Skip")
	}
	if m.opts.Group != nil {
		group = m.opts.Group(r)
	}
	return parts, group, nil
}

func told(v Event, err error) (Event, error) { return v, prefixed(err) }

func prefixed(err error) error {
	if err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}
