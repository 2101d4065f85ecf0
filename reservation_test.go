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

// oldReservation was written before version 2, for limits of all kinds: without an algorithm they were sliding windows.
const oldReservation = `{"id":"ZRJKM6WZVOBYZUAKCJBNFZHLVC","group":"g","charges":[
	{"limit":"10/1m","key":"aw==","cost":4,"at":1767268800000000},
	{"limit":"10/1m segments=3 name=\"x\"","key":"aw==","cost":4,"at":1767268800000000},
	{"limit":"1000/1h","key":"aw==","cost":4,"at":1767268800000000},
	{"limit":"10/1s token-bucket burst=20","key":"aw==","cost":4,"at":1767268800000000}]}`

func TestOldReservation(t *testing.T) {
	var r slidegate.Reservation
	if err := json.Unmarshal([]byte(oldReservation), &r); err != nil {
		t.Fatal(err)
	}
	const window = slidegate.SlidingWindow
	key := []byte("k")
	want := slidegate.Reservation{Version: 2, ID: "ZRJKM6WZVOBYZUAKCJBNFZHLVC", Group: "g", Charges: []slidegate.ReservedCharge{
		{Limit: slidegate.Limit{Quota: 10, Window: time.Minute, Algorithm: window}, Key: key, Cost: 4, At: noon},
		{Limit: slidegate.Limit{Name: "x", Quota: 10, Window: time.Minute, Algorithm: window, Segments: 3}, Key: key, Cost: 4, At: noon},
		{Limit: slidegate.Limit{Quota: 1000, Window: time.Hour, Algorithm: window}, Key: key, Cost: 4, At: noon},
		{Limit: slidegate.Limit{Quota: 10, Window: time.Second, Algorithm: slidegate.TokenBucket, Burst: 20}, Key: key, Cost: 4, At: noon},
	}}
	if !reflect.DeepEqual(r, want) {
		t.Fatalf("read %+v, want %+v", r, want)
	}
	// It is settled where it was charged, even after it was encoded again, and is found by its original text.
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again slidegate.Reservation
	if err := json.Unmarshal(encoded, &again); err != nil || !reflect.DeepEqual(again, want) {
		t.Fatalf("written as %s it is %+v, %v", encoded, again, err)
	}
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		limiter := newPerCall(t, st)
		window := slidegate.Claim{Limit: want.Charges[0].Limit, Key: "k", Cost: 4}
		if _, err := limiter.For(window).InGroup("g").Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
		done, err := limiter.Settle(t.Context(), again, slidegate.Used{Limit: "10/1m", Cost: 1})
		if err != nil || !reflect.DeepEqual(done.Returned, []int64{3, 0, 0, 0}) {
			t.Errorf("settled %+v, %v, want 3 given back of the first", done, err)
		}
	})
}

// In a reservation of this version, a limit that names no algorithm has the default algorithm.
func TestReservationVersions(t *testing.T) {
	var r slidegate.Reservation
	const unnamed = `"id":"x","charges":[{"limit":"10/1m","key":"aw==","cost":4,"at":1}]}`
	if err := json.Unmarshal([]byte(`{"version":2,`+unnamed), &r); err != nil || r.Charges[0].Limit != slidegate.PerMinute(10) {
		t.Errorf("read %+v, %v", r, err)
	}
	if err := json.Unmarshal([]byte(`{"version":1,`+unnamed), &r); err != nil || r.Charges[0].Limit.Algorithm != slidegate.SlidingWindow {
		t.Errorf("read %+v, %v", r, err)
	}
	// The same holds without JSON, for a program that stores the fields of a reservation in table columns.
	by := slidegate.Reservation{ID: "y", Charges: []slidegate.ReservedCharge{{Limit: slidegate.PerMinute(10), Key: []byte("k"), Cost: 4, At: 1}}}
	recorded := &recorder{Store: newReference()}
	for version, want := range map[int]slidegate.Algorithm{0: slidegate.SlidingWindow, 2: slidegate.SlidingLog} {
		by.Version = version
		if _, err := newPerCall(t, recorded).Settle(t.Context(), by, slidegate.Used{Limit: "10/1m", Cost: 4}); err != nil {
			t.Error(err)
		}
		if request := recorded.take()[0]; request.Charges[0].Limit.Rule().Algorithm != want {
			t.Errorf("version %d is settled as %v, want %v", version, slidegate.Unbind(request.Charges[0].Limit), want)
		}
	}
	if encoded, err := json.Marshal(slidegate.Reservation{Charges: by.Charges}); err != nil || !strings.Contains(string(encoded), `"10/1m sliding-window"`) {
		t.Errorf("written as %s, %v", encoded, err)
	}
	before := r
	err := json.Unmarshal([]byte(`{"version":3,"charges":"in a format of the future"}`), &r)
	if !errors.Is(err, slidegate.ErrReservation) || !strings.Contains(err.Error(), "version 3") || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("a newer version: %v", err)
	}
	if !reflect.DeepEqual(r, before) {
		t.Errorf("a failed decoding changed the reservation to %+v", r)
	}
	for _, wrong := range []string{`{"version":"2"}`, `{"charges":[{"limit":"10/1parsec"}]}`, `{"version":-1}`, `[]`} {
		if err := json.Unmarshal([]byte(wrong), &r); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("%s: %v, want ErrReservation", wrong, err)
		}
	}
	r.Version = 3
	limiter := newPerCall(t, newReference())
	if _, err := limiter.Cancel(t.Context(), r); !errors.Is(err, slidegate.ErrReservation) || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("settling a newer version: %v", err)
	}
	r.Version, r.ID = 2, ""
	if _, err := limiter.Cancel(t.Context(), r); !errors.Is(err, slidegate.ErrReservation) || !strings.Contains(err.Error(), "id:") {
		t.Errorf("settling without an id: %v", err)
	}
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
