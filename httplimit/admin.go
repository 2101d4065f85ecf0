package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/rulings"
)

// Peek returns the verdict that the next request of a client would get under a policy, if it cost one unit, and charges
// nothing. The name is "" if the only policy has none. The key is written as in policy.Override, and is no prefix. It returns an error if
// there is no such policy, if no request can have the key, if the store does not answer, or if the decision depends on more than the key:
// on a Plan, unless the key has an override, or on Options.Group. Use PeekRequest then. Lists of addresses are ignored.
func (m *Middleware) Peek(ctx context.Context, name, key string) (Event, error) {
	index, key, err := m.find(name, key)
	if err != nil {
		return Event{}, err
	}
	if m.policies[index].Plan != nil && !m.set.Overridden(index, key) {
		return Event{}, fmt.Errorf("httplimit: policy %q: %w: its limits depend on the request, by Plan; use PeekRequest", name, slidegate.ErrUnsupported)
	}
	return verdict(m.set.Peek(ctx, "", engine.Part{Policy: index, Key: key, Cost: 1}))
}

// Reset resets a client's usage under a policy; see Peek for name and key. Where the policy has a
// Plan, the limits of all plans that this middleware has seen are reset. It returns an error if there is no such policy, if the
// store does not answer, or with Options.Group; use ResetRequest then.
func (m *Middleware) Reset(ctx context.Context, name, key string) error {
	index, key, err := m.find(name, key)
	if err != nil {
		return err
	}
	return withPackage(m.set.Reset(ctx, "", engine.Part{Policy: index, Key: key}))
}

// PeekRequest returns the verdict that a request would get under all policies that apply to it, and charges nothing. The
// request may be a synthetic one, with what Match, Key, Cost and Plan use. It returns an error if no policy applies to the
// request, or if the store does not answer.
func (m *Middleware) PeekRequest(r *http.Request) (Event, error) {
	parts, group, err := m.parts(r)
	if err != nil {
		return Event{}, err
	}
	return verdict(m.set.Peek(r.Context(), group, parts...))
}

// ResetRequest resets the usage of a request's client under all policies that apply to the request; see PeekRequest.
func (m *Middleware) ResetRequest(r *http.Request) error {
	parts, group, err := m.parts(r)
	if err != nil {
		return err
	}
	return withPackage(m.set.Reset(r.Context(), group, parts...))
}

// Follow applies the rulings of a book until unfollow is called: what operators decide about single clients at run time, such as to block
// one until a time. Their policies are those of this middleware; see Peek for names and keys. All processes whose books share a store apply
// the same rulings.
func (m *Middleware) Follow(book *rulings.Book) (unfollow func()) { return ruled.Follow(book, m.set) }

// find returns the index of a policy whose state is addressed by the key alone, and the key as requests have it.
func (m *Middleware) find(name, text string) (index int, key string, err error) {
	index, err = m.set.Index(name)
	switch {
	case err != nil:
	case m.opts.Group != nil:
		err = fmt.Errorf("%w: the usage of a key depends on the request, by Options.Group; use PeekRequest or ResetRequest", slidegate.ErrUnsupported)
	case text == "" && m.policies[index].selfNamed:
		err = fmt.Errorf("policy %q: no client has the empty key; a client without a name has a key such as %q", name, keyform.AddressMark+"203.0.113.7")
	default:
		key, err = m.set.SingleKey(index, text)
	}
	return index, key, withPackage(err)
}

// parts returns the parts of a request.
func (m *Middleware) parts(r *http.Request) (parts []engine.Part, group string, err error) {
	for _, p := range m.policies {
		if p.matches(r) {
			var part engine.Part
			p.part(r, "", &m.opts, &part)
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil, "", errors.New("httplimit: no policy applies to this request; see Match and Skip")
	}
	if m.opts.Group != nil {
		group = m.opts.Group(r)
	}
	return parts, group, nil
}

func verdict(v Event, err error) (Event, error) { return v, withPackage(err) }

func withPackage(err error) error {
	if err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}
