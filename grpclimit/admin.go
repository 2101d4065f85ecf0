package grpclimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
)

// Peek returns the verdict that the next call of a client would get under a policy, if it cost one unit, and charges
// nothing. The name is "" if the only policy has none. The key is written as in policy.Override, and
// is no prefix. It returns an error if there is no such policy, if no call can have the key, if the store does not answer, or if the
// decision depends on more than the key: on a Plan, unless the key has an override, or on Options.Group. Use PeekCall then. Lists of
// addresses are ignored.
func (i *Interceptors) Peek(ctx context.Context, name, key string) (policy.Decision, error) {
	d := i.decider
	index, key, err := d.find(name, key)
	if err != nil {
		return policy.Decision{}, err
	}
	if d.policies[index].Plan != nil && !d.set.Overridden(index, key) {
		return policy.Decision{}, fmt.Errorf("grpclimit: policy %q: %w: its limits depend on the call, by Plan; use PeekCall", name, slidegate.ErrUnsupported)
	}
	v, err := d.set.Peek(ctx, "", engine.Part{Policy: index, Key: key, Cost: 1})
	return v, withPackage(err)
}

// Reset resets a client's usage under a policy; see Peek for name and key. Where the policy
// has a Plan, the limits of all plans that these interceptors have seen are reset. It returns an error if there is no
// such policy, if the store does not answer, or with Options.Group; use ResetCall then.
func (i *Interceptors) Reset(ctx context.Context, name, key string) error {
	index, key, err := i.decider.find(name, key)
	if err != nil {
		return err
	}
	return withPackage(i.decider.set.Reset(ctx, "", engine.Part{Policy: index, Key: key}))
}

// PeekCall returns the verdict that a call would get under all policies that apply to it, and charges nothing. The
// context is that of a call, or one with the metadata and peer that Key, Cost and Plan use. It returns an error if no
// policy applies to the call, or if the store does not answer.
func (i *Interceptors) PeekCall(ctx context.Context, method string) (policy.Decision, error) {
	parts, group, err := i.decider.parts(ctx, method)
	if err != nil {
		return policy.Decision{}, err
	}
	v, err := i.decider.set.Peek(ctx, group, parts...)
	return v, withPackage(err)
}

// ResetCall resets the usage of a call's client under all policies that apply to the call; see PeekCall.
func (i *Interceptors) ResetCall(ctx context.Context, method string) error {
	parts, group, err := i.decider.parts(ctx, method)
	if err != nil {
		return err
	}
	return withPackage(i.decider.set.Reset(ctx, group, parts...))
}

// Follow applies the rulings of a book until unfollow is called: what operators decide about single clients at run time,
// such as to block one until a time. Their policies are those of these interceptors; see Peek for names and keys. All
// processes whose books share a store apply the same rulings.
func (i *Interceptors) Follow(book *rulings.Book) (unfollow func()) {
	return ruled.Follow(book, i.decider.set)
}

// find returns the index of a policy whose state is addressed by the key alone, and the key as calls have it.
func (d *decider) find(name, text string) (index int, key string, err error) {
	index, err = d.set.Index(name)
	switch {
	case err != nil:
	case d.group != nil:
		err = fmt.Errorf("%w: the usage of a key depends on the call, by Options.Group; use PeekCall or ResetCall", slidegate.ErrUnsupported)
	case text == "" && !d.policies[index].address.IsZero():
		err = fmt.Errorf("policy %q: no client has the empty key; a client without a name has a key such as %q", name, keyform.AddressMark+"203.0.113.7")
	default:
		key, err = d.set.SingleKey(index, text)
	}
	return index, key, withPackage(err)
}

// parts returns the parts of a call.
func (d *decider) parts(ctx context.Context, method string) (parts []engine.Part, group string, err error) {
	c := call{method: fullMethod(method)}
	for _, p := range d.matching(ctx, &c, nil) {
		var part engine.Part
		p.part(ctx, &c, d, &part)
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil, "", errors.New("grpclimit: no policy applies to this call; see Match and Skip")
	}
	if d.group != nil {
		group = d.group(ctx, c.method)
	}
	return parts, group, nil
}

func withPackage(err error) error {
	if err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}
