package observe_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// eventCopy is a copy of an event, which must not be kept itself.
type eventCopy struct {
	op       rule.Op
	limits   string
	allowed  string
	duration time.Duration
	err      error
	keys     string
}

// copied copies an event.
func copied(e observe.Event) eventCopy {
	c := eventCopy{op: e.Op, limits: strings.Join(e.Limits, ", "), duration: e.Duration, err: e.Err}
	for _, a := range e.Answers {
		c.allowed += fmt.Sprint(a.Allowed, " ", a.Granted, " of ", a.Granted+a.Remaining, "; ")
	}
	if e.Request != nil {
		for _, charge := range e.Request.Charges {
			c.keys += charge.Key + " in " + e.Request.Group + "; "
		}
	}
	return c
}

// OnDecision is called for every request, whatever its operation and result, in order, after it was decided.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		memory := newMemory(t, func() rule.Micros { return noon })
		inner := scripted{decide: func(r *store.Request) error {
			time.Sleep(time.Millisecond)
			if r.Charges[0].Key == "bad" {
				r.Answers[0].Allowed = true // left over from a failed attempt
				return down
			}
			return memory.Apply(context.Background(), []store.Request{*r})
		}}
		for _, keys := range []bool{false, true} {
			var got []eventCopy
			opts := observe.Options{
				MeterProvider: noop.NewMeterProvider(), Keys: keys, DurationEvery: 1 << 30,
				OnDecision: func(e observe.Event) { got = append(got, copied(e)) },
			}
			limiter := newLimiter(t, open(t, inner, opts), user)
			_, _ = limiter.Allow(t.Context(), "a")
			_, _ = limiter.AllowN(t.Context(), "a", 3)
			_, _ = limiter.Allow(t.Context(), "bad")
			_, _ = limiter.Peek(t.Context(), "a")
			_ = limiter.Reset(t.Context(), "a")
			two := limiter.For(slidegate.Claim{Limit: tenant, Key: "t", Cost: 2}, slidegate.Claim{Limit: user, Key: "a", Cost: 2})
			_, _ = two.InGroup("g").Allow(t.Context())
			_, _ = two.InGroup("g").Refund(t.Context())
			_ = limiter.Reset(t.Context(), "a")
			want := []eventCopy{
				{op: rule.Take, limits: "user", allowed: "true 1 of 3; ", keys: "a in ; "},
				{op: rule.Take, limits: "user", allowed: "false 0 of 2; ", keys: "a in ; "},
				{op: rule.Take, limits: "user", err: down, keys: "bad in ; "},
				{op: rule.Peek, limits: "user", allowed: "true 0 of 2; ", keys: "a in ; "},
				{op: rule.Reset, limits: "user", allowed: "true 0 of 3; ", keys: "a in ; "},
				{op: rule.Take, limits: "tenant, user", allowed: "true 2 of 5; true 2 of 3; ", keys: "t in g; a in g; "},
				{op: rule.GiveBack, limits: "tenant, user", allowed: "true 2 of 7; true 2 of 5; ", keys: "t in g; a in g; "},
				{op: rule.Reset, limits: "user", allowed: "true 0 of 3; ", keys: "a in ; "},
			}
			for i := range want {
				want[i].duration = time.Millisecond
				if !keys {
					want[i].keys = ""
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n  %+v\nwant\n  %+v", got, want)
			}
		}
	})
}

// Each request of a batch is its own event, with its own limits, and the duration of the batch.
func TestEventsOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		inner := scripted{decide: func(*store.Request) error { time.Sleep(time.Millisecond); return nil }}
		st := open(t, inner, observe.Options{
			MeterProvider: noop.NewMeterProvider(),
			OnDecision:    func(e observe.Event) { got = append(got, fmt.Sprint(e.Limits, e.Duration, len(e.Answers))) },
		})
		a, b := bind(t, user), bind(t, tenant)
		request := func(limits ...*store.Limit) store.Request {
			r := store.Request{Answers: make([]rule.Answer, len(limits))}
			for _, limit := range limits {
				r.Charges = append(r.Charges, store.Charge{Limit: limit})
			}
			return r
		}
		if err := st.Apply(t.Context(), []store.Request{request(a, b), request(b), request(a)}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"[user tenant] 3ms 2", "[tenant] 3ms 1", "[user] 3ms 1"}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// An answer that came with an error is not reported, by TakeSingle or by Apply.
func TestErrorHasNoAnswer(t *testing.T) {
	down := errors.New("down")
	inner := scripted{decide: func(r *store.Request) error {
		r.Answers[0] = rule.Answer{Allowed: true, Granted: 1, Remaining: 5}
		return down
	}}
	store := open(t, inner, observe.Options{MeterProvider: noop.NewMeterProvider()})
	allowed, _, remaining, _, _, _, err := store.TakeSingle(t.Context(), bind(t, user), "k", 1)
	if allowed || remaining != 0 || err != down {
		t.Errorf("got allowed %v, %d remaining, %v", allowed, remaining, err)
	}
}

// OnDecision may call the store itself.
func TestOnDecisionCallsTheStore(t *testing.T) {
	var store *observe.Store
	limit := bind(t, user)
	depth, events := 0, 0
	store = open(t, newMemory(t, nil), observe.Options{MeterProvider: noop.NewMeterProvider(), Keys: true, OnDecision: func(e observe.Event) {
		events++
		if depth++; depth < 3 {
			_, _, _, _, _, _, _ = store.TakeSingle(t.Context(), limit, "inner", 1)
		}
		depth--
		if len(e.Limits) != 1 || e.Limits[0] != "user" || e.Request.Charges[0].Key == "" {
			t.Errorf("the event was changed in the meantime: %+v", e)
		}
	}})
	_, _, _, _, _, _, _ = store.TakeSingle(t.Context(), limit, "outer", 1)
	if events != 3 {
		t.Errorf("got %d events", events)
	}
}
