package slidegate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/layer/denycache"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// layers returns several paths to one store.
func layers(t testing.TB, bottom store.Store) map[string]store.Store {
	coalesced := testkit.Must(coalesce.New(bottom, coalesce.Options{}))(t)
	failing := testkit.Must(failure.New(coalesced, failure.Open(), failure.Options{}))(t)
	return map[string]store.Store{
		"the store": bottom, "coalesce": coalesced, "failure over coalesce": failing,
		"denycache over failure": testkit.Must(denycache.New(failing, denycache.Options{}))(t),
	}
}

// Two limiters whose limits differ but share their counts would deny clients that are within both.
func TestNewRejectsSharedCounts(t *testing.T) {
	bucket := func(quota, burst int64) slidegate.Limit {
		return slidegate.Limit{Quota: quota, Window: time.Minute, Algorithm: slidegate.TokenBucket, Burst: burst}
	}
	for name, test := range map[string]struct {
		first, second []slidegate.Limit
		want          []string // in the error; nil if both limiters are valid
	}{
		"quotas":             {limits(slidegate.PerMinute(100)), limits(slidegate.PerMinute(5)), []string{`"100/1m"`, `"5/1m"`}},
		"another spelling":   {limits(slidegate.PerMinute(500)), limits(slidegate.Limit{Quota: 5, Window: 60 * time.Second, Segments: 1}), []string{`"500/1m"`, `"5/1m`}},
		"an algorithm named": {limits(slidegate.PerMinute(100)), limits(exact("", 5, time.Minute)), []string{`"100/1m"`, `"5/1m sliding-log"`}},
		"second of several":  {limits(slidegate.PerSecond(1), slidegate.PerHour(9)), limits(slidegate.PerMinute(2), slidegate.PerHour(8)), []string{`"9/1h"`, `"8/1h"`}},
		"logs":               {limits(exact("", 5, time.Hour)), limits(exact("", 6, time.Hour)), []string{"5/1h", "6/1h"}},
		"bursts":             {limits(bucket(10, 20)), limits(bucket(10, 30)), []string{"burst=20", "burst=30"}},
		"equal":              {limits(slidegate.PerMinute(5)), limits(slidegate.PerMinute(5)), nil},
		"default burst":      {limits(bucket(10, 10)), limits(bucket(10, 0)), nil},
		"windows":            {limits(slidegate.PerMinute(100)), limits(slidegate.PerHour(5)), nil},
		"algorithms":         {limits(slidegate.PerMinute(500)), limits(exact("", 5, time.Minute)), nil},
		"both sides of 100":  {limits(slidegate.PerMinute(60)), limits(slidegate.PerMinute(600)), nil},
		"one has a name":     {limits(slidegate.PerMinute(100)), limits(slidegate.Limit{Name: "login", Quota: 5, Window: time.Minute}), nil},
		"the same name": {limits(slidegate.Limit{Name: "api", Quota: 9, Window: time.Minute}),
			limits(slidegate.Limit{Name: "api", Quota: 5, Window: time.Minute}), nil},
	} {
		bottom := newReference()
		stores := layers(t, bottom)
		newLimiter(t, stores["coalesce"], test.first...)
		for way, st := range stores {
			_, err := slidegate.New(st, test.second...)
			if test.want == nil {
				if err != nil {
					t.Errorf("%s, over %s: %v", name, way, err)
				}
				continue
			}
			if !errors.Is(err, slidegate.ErrConflict) {
				t.Errorf("%s, over %s: %v, want ErrConflict", name, way, err)
				continue
			}
			for _, want := range append(test.want, "Name") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s, over %s: %q does not contain %s", name, way, err, want)
				}
			}
		}
	}
}

func limits(limits ...slidegate.Limit) []slidegate.Limit { return limits }

// Plans and limits per call share counts as intended; other namespaces and other stores do not.
func TestSharedCountsOnPurpose(t *testing.T) {
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		free := newLimiter(t, store, slidegate.PerMinute(5))
		pro, err := free.With(slidegate.PerMinute(100))
		if err != nil {
			t.Fatal(err)
		}
		allow(t, free, "k", 3)
		if n := used(t, pro, "k"); n != 3 {
			t.Errorf("used %d under the other plan, want 3", n)
		}
		perCall := newPerCall(t, store)
		if d, err := perCall.AllowLimit(t.Context(), "k", slidegate.PerMinute(7)); err != nil || d.Remaining != 3 {
			t.Errorf("a limit per call: got %+v, %v, want Remaining 3", d, err)
		}
		if n := usedOf(t, perCall, slidegate.PerMinute(9), "k"); n != 4 {
			t.Errorf("used %d by a claim, want 4", n)
		}
		if _, err := slidegate.NewWithOptions(store, slidegate.Options{Namespace: "other", Limits: limits(slidegate.PerMinute(6))}); err != nil {
			t.Errorf("another namespace: %v", err)
		}
		if _, err := slidegate.New(storetest.NewReference(clock), slidegate.PerMinute(6)); err != nil {
			t.Errorf("another store: %v", err)
		}
	})
}

// A limiter that could not be created leaves nothing behind.
func TestRejectedLimitsAreNotDeclared(t *testing.T) {
	st := newReference()
	newLimiter(t, st, slidegate.PerMinute(100))
	if _, err := slidegate.New(st, slidegate.PerHour(10), slidegate.PerMinute(5)); !errors.Is(err, slidegate.ErrConflict) {
		t.Fatalf("got %v, want ErrConflict", err)
	}
	newLimiter(t, st, slidegate.PerHour(20))
}
