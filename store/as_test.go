package store_test

import (
	"testing"

	"github.com/slidegate/slidegate/store"
)

// named is an optional interface that some stores of these tests implement.
type named interface{ Name() string }

type plain struct{ store.Store }

type withName struct {
	store.Store
	name string
}

func (w withName) Name() string { return w.name }

// layer hides what is below it from a type assertion, and exposes it to As.
type layer struct{ inner store.Store }

func (l layer) Unwrap() store.Store { return l.inner }

type passing struct {
	store.Store
	layer
}

func (p passing) Unwrap() store.Store { return p.inner }

// namedLayer is a layer that implements the optional interface itself.
type namedLayer struct {
	passing
	name string
}

func (n namedLayer) Name() string { return n.name }

func over(s store.Store) store.Store { return passing{Store: plain{}, layer: layer{s}} }

func TestAs(t *testing.T) {
	bottom := withName{name: "bottom"}
	for name, c := range map[string]struct {
		from store.Store
		want string // empty if there is none
	}{
		"the store itself":                       {bottom, "bottom"},
		"through a layer":                        {over(bottom), "bottom"},
		"through two layers":                     {over(over(bottom)), "bottom"},
		"the first that implements it":           {over(namedLayer{passing{layer: layer{bottom}}, "middle"}), "middle"},
		"not found":                              {plain{}, ""},
		"not found below layers":                 {over(over(plain{})), ""},
		"a store without Unwrap ends the search": {plain{Store: bottom}, ""},
		"no store":                               {nil, ""},
		"a layer over nothing":                   {over(nil), ""},
	} {
		found, ok := store.As[named](c.from)
		if ok != (c.want != "") || ok && found.Name() != c.want {
			t.Errorf("%s: found %v, %v, want %q", name, found, ok, c.want)
		}
		if !ok && found != nil {
			t.Errorf("%s: got %v although it was not found", name, found)
		}
	}
}
