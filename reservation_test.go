package slidegate_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A reservation is read in one version only, and a failed decoding changes nothing.
func TestReservationVersion(t *testing.T) {
	var r slidegate.Reservation
	const written = `{"version":1,"id":"x","namespace":"n","group":"g","charges":[{"limit":"10/1m","key":"aw==","cost":4,"at":1}]}`
	if err := json.Unmarshal([]byte(written), &r); err != nil {
		t.Fatal(err)
	}
	if encoded, err := json.Marshal(r); err != nil || string(encoded) != written {
		t.Errorf("written as %s, %v, want %s", encoded, err, written)
	}
	before := r
	for _, wrong := range []string{
		`{"version":2,"charges":"in a format of the future"}`, `{"id":"x","charges":[]}`, `{"version":"1"}`, `{"version":-1}`,
		`{"version":1,"charges":[{"limit":"10/1parsec"}]}`, `[]`,
	} {
		if err := json.Unmarshal([]byte(wrong), &r); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("%s: %v, want ErrReservation", wrong, err)
		}
	}
	if !reflect.DeepEqual(r, before) {
		t.Errorf("a failed decoding changed the reservation to %+v", r)
	}
	limiter := newPerCall(t, newReference())
	for field, change := range map[string]func(*slidegate.Reservation){
		"version:": func(r *slidegate.Reservation) { r.Version = 2 }, "id:": func(r *slidegate.Reservation) { r.ID = "" },
	} {
		wrong := r
		wrong.Namespace = ""
		change(&wrong)
		if _, err := limiter.Cancel(t.Context(), wrong); !errors.Is(err, slidegate.ErrReservation) || !strings.Contains(err.Error(), field) {
			t.Errorf("cancelling with another %s %v, want ErrReservation", field, err)
		}
	}
}

// A reservation belongs to the namespace in which it was made: elsewhere nothing would be settled.
func TestReservationBelongsToItsNamespace(t *testing.T) {
	limits := []slidegate.Limit{exact("tokens", 100, time.Minute), {Name: "running", Quota: 5, Window: time.Minute, Algorithm: slidegate.InFlight}}
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		make := func(namespace string) *slidegate.Limiter {
			l, err := slidegate.NewWithOptions(st, slidegate.Options{Namespace: namespace, Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		own, other := make("shop"), make("blog")
		r := reserve(t, own, 20)
		for name, end := range reservationEnds() {
			if _, err := end.end(t.Context(), other, r); !errors.Is(err, slidegate.ErrReservation) ||
				!strings.Contains(err.Error(), `"shop"`) || !strings.Contains(err.Error(), `"blog"`) {
				t.Errorf("%s in another namespace: %v, want ErrReservation with both names", name, err)
			}
		}
		if _, err := other.Renew(t.Context(), r); !errors.Is(err, slidegate.ErrReservation) || !strings.Contains(err.Error(), `"blog"`) {
			t.Errorf("renewing in another namespace: %v, want ErrReservation", err)
		}
		if done, err := own.Settle(t.Context(), r, slidegate.Used{Limit: "tokens", Cost: 3}); err != nil || done.Returned[0] != 17 {
			t.Errorf("in its own namespace: %+v, %v, want 17 returned", done, err)
		}
	})
}

// An algorithm that was taken from another limit travels with the reservation, whose limits are found by their text as
// written.
func TestReservationKeepsResolvedAlgorithm(t *testing.T) {
	for _, text := range []string{"5/1m", "600/1m"} {
		overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
			base := newLimiter(t, st, slidegate.MustParseLimit("60/1m"))
			limiter, err := base.With(slidegate.MustParseLimit(text))
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(reserve(t, limiter, 4))
			if err != nil {
				t.Fatal(err)
			}
			var r slidegate.Reservation
			if err := json.Unmarshal(encoded, &r); err != nil || r.Charges[0].Limit.Algorithm != slidegate.SlidingLog {
				t.Fatalf("%s is %+v, %v", encoded, r, err)
			}
			elsewhere := newPerCall(t, st)
			if done, err := elsewhere.Settle(t.Context(), r, slidegate.Used{Limit: text, Cost: 1}); err != nil || done.Returned[0] != 3 {
				t.Errorf("%s: settled %+v, %v, want 3 back", text, done, err)
			}
			if n := used(t, base, "k"); n != 1 {
				t.Errorf("%s: used %d, want 1", text, n)
			}
		})
	}
}
