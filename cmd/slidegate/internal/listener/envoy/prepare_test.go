package envoy

import (
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// TestOtherLimitsTakeNoCapacity: the rules of a file have capacity in the store, at every level, however many other
// limits there are.
func TestOtherLimitsTakeNoCapacity(t *testing.T) {
	inner, err := memstore.New(memstore.Options{MaxLimits: 4})
	if err != nil {
		t.Fatal(err)
	}
	service, err := New(inner, []*Domain{mustParse(t, `
domain: d
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
    descriptors:
      - key: path
        value: /a*
        rate_limit: {unit: day, requests_per_unit: 5}
`)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	limit := func(window time.Duration) error {
		limiter, err := slidegate.New(inner, slidegate.Limit{Quota: 5, Window: window, Algorithm: slidegate.FixedWindow})
		if err != nil {
			t.Fatal(err)
		}
		_, err = limiter.Allow(t.Context(), "key")
		return err
	}
	for i := range 4 {
		if err := limit(time.Duration(i+1) * time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := limit(5 * time.Minute); !errors.Is(err, memstore.ErrLimits) {
		t.Fatalf("got %v, want a full store", err)
	}
	for _, descriptor := range []string{"user=ann", "user=ann,path=/a/b"} {
		if _, err := service.ShouldRateLimit(t.Context(), request("d", 1, descriptor)); err != nil {
			t.Errorf("%s, which is in the file: got %v", descriptor, err)
		}
	}
}
