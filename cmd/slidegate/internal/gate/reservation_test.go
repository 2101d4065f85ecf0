package gate

import (
	"errors"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
)

// TestForgedReservation: only charges that the policy's own limits could have made can be settled, whatever their quota
// was.
func TestForgedReservation(t *testing.T) {
	file, err := config.Parse("f", []byte("policies:\n  api:\n    limits: [10/1h]\n    overrides: [{key: vip, limits: [99/1m]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(file, store, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		limit string
		known bool
	}{
		{"10/1h", true},
		{"7/1h", true}, // before a reload
		{"99/1m", true},
		{"10/2h", false},
		{"10/1h segments=4", false},
		{"10/1h name=mine", false},
	} {
		r := slidegate.Reservation{Version: 1, ID: "x", Namespace: "api", Charges: []slidegate.ReservedCharge{
			{Limit: slidegate.MustParseLimit(test.limit), Key: []byte("me"), Cost: 1, At: 1},
		}}
		_, err := g.End(t.Context(), Settle, "api", r, slidegate.Used{Limit: test.limit, Cost: 2})
		if test.known != (err == nil) || !test.known && !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("%s: got %v, want no error if known, otherwise slidegate.ErrReservation; known is %v", test.limit, err, test.known)
		}
	}
}
