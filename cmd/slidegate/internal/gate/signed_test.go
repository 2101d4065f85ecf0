package gate

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
)

// TestReservationIsSettledOnlyUnchanged: a reservation can only be settled unchanged and under the policy that it was made under.
func TestReservationIsSettledOnlyUnchanged(t *testing.T) {
	file, err := config.Parse("f", []byte("policies:\n  api: {limits: [10/1h, 10/1m]}\n  also: {limits: [10/1h, 10/1m]}\n  free: {limits: [1/1h], allow: [\"key:me\"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(file, store, Options{Key: NewKey(nil, slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(policy string) slidegate.Reservation {
		r, v, err := g.Take(t.Context(), Reserve, Request{Policy: policy, Key: "me", Cost: 2})
		if err != nil || !v.Decision.Allowed {
			t.Fatal(v, err)
		}
		text, err := json.Marshal(r) // as it goes to the client and comes back
		if err != nil {
			t.Fatal(err)
		}
		var back slidegate.Reservation
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		return back
	}
	for name, change := range map[string]func(*slidegate.Reservation){
		"id":       func(r *slidegate.Reservation) { r.ID = anotherLetter(r.ID[:1]) + r.ID[1:] },
		"unsigned": func(r *slidegate.Reservation) { r.ID = r.ID[:26] },
		"version":  func(r *slidegate.Reservation) { r.ID = r.ID[:26] + ".v3." + r.ID[30:] },
		"policy":   func(r *slidegate.Reservation) { r.Namespace = "also" },
		"group":    func(r *slidegate.Reservation) { r.Group = "g" },
		"key":      func(r *slidegate.Reservation) { r.Charges[0].Key = []byte("victim") },
		"cost":     func(r *slidegate.Reservation) { r.Charges[0].Cost = 9 },
		"at":       func(r *slidegate.Reservation) { r.Charges[1].At++ },
		"quota":    func(r *slidegate.Reservation) { r.Charges[0].Limit.Quota = 11 },
		"fewer":    func(r *slidegate.Reservation) { r.Charges = r.Charges[:1] },
		"none":     func(r *slidegate.Reservation) { r.Charges = nil },
		"more":     func(r *slidegate.Reservation) { r.Charges = append(r.Charges, r.Charges[0]) },
		"order":    func(r *slidegate.Reservation) { r.Charges[0], r.Charges[1] = r.Charges[1], r.Charges[0] },
		"zero":     func(r *slidegate.Reservation) { *r = slidegate.Reservation{} },
	} {
		r := reserve("api")
		untouched := r
		untouched.Charges = append([]slidegate.ReservedCharge{}, r.Charges...)
		change(&r)
		_, settled := g.End(t.Context(), Settle, "api", r, slidegate.Used{Limit: "10/1h", Cost: 9})
		_, cancelled := g.End(t.Context(), Cancel, "api", r)
		_, released := g.End(t.Context(), Release, "api", r)
		_, renewed := g.End(t.Context(), Renew, "api", r)
		for verb, err := range map[string]error{"settle": settled, "cancel": cancelled, "release": released, "renew": renewed} {
			if !errors.Is(err, slidegate.ErrReservation) {
				t.Errorf("%s with another %s: got %v, want ErrReservation", verb, name, err)
			} else if says := strings.Contains(err.Error(), "signed in format 3, and this version reads format 1; send it to the version of Slidegate"); says != (name == "version") {
				t.Errorf("%s with another %s: got %v", verb, name, err)
			}
		}
		if _, err := g.End(t.Context(), Cancel, "also", untouched); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("under another policy: got %v, want ErrReservation", err)
		}
		if _, err := g.End(t.Context(), Cancel, "api", untouched); err != nil {
			t.Errorf("unchanged: got %v, want no error", err)
		}
	}
	r := reserve("free") // nothing was charged
	r.Charges = nil
	if _, err := g.End(t.Context(), Settle, "free", r, slidegate.Used{Limit: "1/1h", Cost: 1}); err != nil {
		t.Errorf("without charges: got %v, want no error", err)
	}
}

// TestSignedSlots: the store knows a reservation by its ID without the signature, so that slots can be renewed and
// released.
func TestSignedSlots(t *testing.T) {
	file, err := config.Parse("f", []byte("policies: {held: {limits: [2 in-flight ttl=30s]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(file, store, Options{Key: NewKey(nil, slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	r, v, err := g.Take(t.Context(), Acquire, Request{Key: "me", Cost: 1})
	if err != nil || !v.Decision.Allowed {
		t.Fatal(v, err)
	}
	if v, err := g.End(t.Context(), Renew, "held", r); err != nil || !v.Decision.Allowed {
		t.Errorf("renew: got %+v, %v; want it renewed", v, err)
	}
	if done, err := g.End(t.Context(), Release, "held", r); err != nil || done.Decision.Answers[0].Granted != 1 {
		t.Errorf("release: got %+v, %v; want a slot released", done, err)
	}
}

// anotherLetter returns a letter of the ID alphabet other than the given one.
func anotherLetter(letter string) string {
	if letter == "X" {
		return "Y"
	}
	return "X"
}
