package grpclimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// Peek returns what the next call of a client would be answered under a policy, if it cost one unit, and charges nothing. The
// name is "" if the only policy has none. The key is what the policy's Key returns, or "address:203.0.113.7" for a client of
// that address for which it returns nothing. It is an error if there is no such policy, if the store does not answer, and if
// what decides depends on more than the key: a Plan, unless an override has the key, or Options.Group. Use PeekCall then. Lists
// of addresses are not looked at.
func (i *Interceptors) Peek(ctx context.Context, name, key string) (policy.Verdict, error) {
	d := i.decider
	place, err := d.find(name, key)
	if err != nil {
		return policy.Verdict{}, err
	}
	if d.policies[place].Plan != nil && !d.set.Overridden(place, key) {
		return policy.Verdict{}, fmt.Errorf("grpclimit: policy %q: %w: its limits depend on the call, by Plan; use PeekCall", name, slidegate.ErrUnsupported)
	}
	v, err := d.set.Look(ctx, "", policy.Part{Policy: place, Key: key, Cost: 1})
	return v, prefixed(err)
}

// Reset forgets what a client has used under a policy, and under its candidate; see Peek for name and key. Where the policy has
// a Plan, the limits of all plans that these interceptors have seen are reset. It is an error if there is no such policy, if
// the store does not answer, and with Options.Group, for which there is ResetCall.
func (i *Interceptors) Reset(ctx context.Context, name, key string) error {
	place, err := i.decider.find(name, key)
	if err != nil {
		return err
	}
	return prefixed(i.decider.set.Forget(ctx, "", policy.Part{Policy: place, Key: key}))
}

// PeekCall returns what a call would be answered, by all policies that it faces, and charges nothing. The context is that of a
// call, or one with the metadata and peer that Key, Cost and Plan look at. It is an error if the call faces no policy, and if
// the store does not answer.
func (i *Interceptors) PeekCall(ctx context.Context, method string) (policy.Verdict, error) {
	parts, group, err := i.decider.parts(ctx, method)
	if err != nil {
		return policy.Verdict{}, err
	}
	v, err := i.decider.set.Look(ctx, group, parts...)
	return v, prefixed(err)
}

// ResetCall forgets what the client of a call has used under all policies that the call faces; see PeekCall.
func (i *Interceptors) ResetCall(ctx context.Context, method string) error {
	parts, group, err := i.decider.parts(ctx, method)
	if err != nil {
		return err
	}
	return prefixed(i.decider.set.Forget(ctx, group, parts...))
}

// Rule puts rulings in place of all that a policy had before: what somebody decides about single clients while the program runs, such
// as to block one until a time. See Peek for the name and for keys, and policy.Set.Rule. They are not kept when the program ends.
func (i *Interceptors) Rule(name string, rulings ...policy.Ruling) error {
	place, err := i.decider.set.Find(name)
	if err == nil {
		err = i.decider.set.Rule(place, rulings)
	}
	return prefixed(err)
}

// find returns the place of a policy whose state the key alone addresses.
func (d *decider) find(name, key string) (int, error) {
	place, err := d.set.Find(name)
	switch {
	case err != nil:
	case d.group != nil:
		err = fmt.Errorf("%w: what a key has used depends on the call, by Options.Group; use PeekCall or ResetCall", slidegate.ErrUnsupported)
	case key == "" && d.policies[place].address != nil:
		err = fmt.Errorf("policy %q: no client has the empty key; one without a name has a key such as %q", name, addressMark+"203.0.113.7")
	}
	return place, prefixed(err)
}

// parts returns what a call faces.
func (d *decider) parts(ctx context.Context, method string) (parts []policy.Part, group string, err error) {
	c := call{method: fullMethod(method)}
	for _, p := range d.facing(ctx, &c, nil) {
		var part policy.Part
		p.part(ctx, &c, d, &part)
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil, "", errors.New("grpclimit: no policy is for this call; see Match and Skip")
	}
	if d.group != nil {
		group = d.group(ctx, c.method)
	}
	return parts, group, nil
}

func prefixed(err error) error {
	if err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}
