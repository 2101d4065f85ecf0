package stores_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestPenaltyOnRedis(t *testing.T) {
	url := "redis://" + redistest.Server(t).Addr()
	checkSharedPenalty(t, url)
}

func TestPenaltyOnPostgres(t *testing.T) {
	checkSharedPenalty(t, pgtest.Start(t, "fsync = off").URL())
}

// checkSharedPenalty exceeds a limit at one of two processes that share a store. The other one must refuse the key too, until the
// penalty ends or the key is reset.
func checkSharedPenalty(t *testing.T, url string) {
	opts := patientOptions()
	opts.RefusalAge = time.Millisecond // a reset in another process is seen at once
	first, second := newSet(t, openConnected(t, url, opts), 2*time.Second), newSet(t, openConnected(t, url, opts), 2*time.Second)
	take := func(s *engine.Set, key string) (v policy.Decision) {
		t.Helper()
		s.Decide(ctx, rule.Take, &engine.Part{Key: key, Cost: 1}, &v)
		if v.Err != nil || v.Decision.Flags&answering.Fallbacks != 0 {
			t.Fatalf("the store did not decide: %+v", v)
		}
		return v
	}
	var begun policy.Decision
	ann := ""
	for n := 0; begun.Decision.Allowed || n == 0; n++ { // until three requests came within the window of 100ms
		ann = fmt.Sprint("ann-", n)
		one := take(first, ann)
		for _, v := range []policy.Decision{one, take(second, ann)} {
			if v.Refused || v.Penalty != 0 {
				t.Fatalf("one of two units: got %+v, want not refused, Penalty 0", v)
			}
		}
		begun = take(first, ann)
		if begun.Decision.Allowed && begun.Decision.At-one.Decision.At < 100_000 {
			t.Fatalf("the third of two units: %+v, want a refusal", begun)
		}
	}
	if !begun.Refused || begun.Penalty <= time.Second || begun.Penalty > 2*time.Second || begun.Decision.RetryAfter < begun.Penalty {
		t.Fatalf("the excess: %+v, want a refusal that begins a penalty of two seconds", begun)
	}
	// The window is 100ms, so what refuses from now on is the penalty.
	var v policy.Decision
	testkit.Eventually(t, "only the penalty refuses the key", func() bool {
		v = take(second, ann)
		return v.Refused && v.Decision.RetryAfter == v.Penalty && v.Penalty < 1900*time.Millisecond || !v.Refused
	})
	if !v.Refused {
		t.Fatalf("the other process: %+v, want a refusal by the penalty", v)
	}
	testkit.Eventually(t, "the penalty to end", func() bool { return !take(second, ann).Refused })

	for n := 0; n < 3 || !v.Refused; n++ { // until three requests came within the window
		v = take(first, "bob")
	}
	if v.Penalty == 0 {
		t.Fatalf("another excess: %+v, want a penalty", v)
	}
	if err := second.Reset(ctx, "", engine.Part{Key: "bob"}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the reset is seen", func() bool { return !take(first, "bob").Refused })
}

func newSet(t *testing.T, o *open.Opened, penalty time.Duration) *engine.Set {
	t.Helper()
	limits := []slidegate.Limit{{Quota: 2, Window: 100 * time.Millisecond, Algorithm: slidegate.SlidingLog}}
	set, err := engine.NewOver(o.Store, []engine.Spec{{Name: "api", Limits: limits, Penalty: penalty}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}
