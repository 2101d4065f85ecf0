package gate_test

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

var limitTexts = []string{
	"3/10s", "7/1m sliding-log", "4/10s fixed-window", "5/30s token-bucket", "6/20s segments=4 overlap=whole", "2/5s count-refused",
}

// drawLimits returns one to three limits with different names.
func drawLimits(t *rapid.T) (drawn []slidegate.Limit) {
	for i := range rapid.IntRange(1, 3).Draw(t, "how many limits") {
		l := limit(rapid.SampledFrom(limitTexts).Draw(t, "limit"))
		l.Name = fmt.Sprint("l", i)
		drawn = append(drawn, l)
	}
	return drawn
}

// TestSameAsLimiter compares a gate with a plain policy to a Limiter over a separate store, for random requests.
func TestSameAsLimiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, ls := newClock(), drawLimits(t)
		p := config.Policy{Name: "p", Limits: ls}
		stores := [2]store.Store{drawStore(t, c), drawStore(t, c)}
		g, err := gate.New(&config.File{Policies: []config.Policy{p}}, stores[0], gate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		l, err := slidegate.New(slidegate.Namespace(stores[1], "p"), ls...)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			c.Advance(rule.Micros(rapid.IntRange(0, 4_000_000).Draw(t, "later")))
			req := gate.Request{Policy: "p", Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Cost: int64(rapid.IntRange(0, 5).Draw(t, "cost"))}
			step(t, g, l, req, rapid.SampledFrom([]string{"allow", "allow", "allow", "upto", "peek", "refund", "charge", "reset", "reserve"}).Draw(t, "verb"))
		}
	})
}

func drawStore(t *rapid.T, c *storetest.Clock) store.Store {
	store, err := newMemory(c)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "batches only") {
		return &recordingStore{Store: store} // no SingleTaker
	}
	return store
}

func step(t *rapid.T, g *gate.Gate, l *slidegate.Limiter, req gate.Request, verb string) {
	var v policy.Decision
	var d slidegate.Decision
	var mine, theirs error
	allowN, peeked := l.AllowN, req.Cost
	if req.Cost == 0 { // whether a unit is left
		allowN, peeked = func(ctx context.Context, key string, _ int64) (slidegate.Decision, error) { return l.Peek(ctx, key, 1) }, 1
	}
	switch verb {
	case "allow":
		v, mine = g.Do(ctx, gate.Allow, req)
		d, theirs = allowN(ctx, req.Key, req.Cost)
	case "upto":
		req.Cost = max(1, req.Cost)
		v, mine = g.Do(ctx, gate.AllowUpTo, req)
		d, theirs = l.AllowUpTo(ctx, req.Key, req.Cost)
	case "peek":
		v, mine = g.Do(ctx, gate.Peek, req)
		d, theirs = l.Peek(ctx, req.Key, peeked)
	case "refund":
		v, mine = g.Do(ctx, gate.Refund, req)
		d, theirs = l.Refund(ctx, req.Key, req.Cost)
	case "charge":
		req.Cost = max(1, req.Cost)
		v, mine = g.Do(ctx, gate.Charge, req)
		d, theirs = l.Charge(ctx, req.Key, req.Cost)
	case "reset":
		_, mine = g.Do(ctx, gate.Reset, req)
		theirs = l.Reset(ctx, req.Key)
	case "reserve":
		req.Cost = max(1, req.Cost)
		var r, o slidegate.Reservation
		r, v, mine = g.Take(ctx, gate.Reserve, req)
		o, d, theirs = l.Reserve(ctx, req.Key, req.Cost)
		if v.Decision.Allowed && mine == nil {
			actual := int64(rapid.IntRange(0, 7).Draw(t, "actual"))
			used, err := gate.UsedInOrder(&r, slices.Repeat([]int64{actual}, len(r.Charges)))
			if err != nil {
				t.Fatal(err)
			}
			_, mine = g.End(ctx, gate.Settle, "p", r, used...)
			_, theirs = l.SettleAll(ctx, o, actual)
		}
	}
	if mine != nil || theirs != nil {
		t.Fatalf("%s: the gate returned %v and the limiter %v, want no errors", verb, mine, theirs)
	}
	if !reflect.DeepEqual(v.Decision, d) || verb != "reset" && v.Refused == d.Allowed {
		t.Fatalf("%s %+v: got from the gate\n%+v\nwant as from the limiter\n%+v", verb, req, v, d)
	}
}

// TestBatchDecidesLikeSingleRequests compares AllowBatch to Allow, with everything that can decide.
func TestBatchDecidesLikeSingleRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		second := config.Policy{Name: "second", Limits: drawLimits(t), Failure: store.FailClosed}
		third := config.Policy{Name: "third", Limits: drawLimits(t), Shadow: true, Failure: store.FailLocal}
		file := &config.File{Policies: []config.Policy{richPolicy(), second, third}, Service: config.Service{Default: "second"}}
		var gates [2]*gate.Gate
		var metrics [2]*measured
		for i := range gates {
			store, err := newMemory(c)
			if err != nil {
				t.Fatal(err)
			}
			m, provider := newMeasured()
			if gates[i], err = gate.New(file, store, gate.Options{MeterProvider: provider}); err != nil {
				t.Fatal(err)
			}
			defer gates[i].Close()
			metrics[i] = m
		}
		for range 5 {
			c.Advance(rule.Micros(rapid.IntRange(0, 4_000_000).Draw(t, "later")))
			reqs := rapid.SliceOfN(rapid.Custom(drawRequest), 0, 12).Draw(t, "requests")
			decisions, errs := make([]policy.Decision, len(reqs)), make([]error, len(reqs))
			gates[0].AllowBatch(ctx, reqs, decisions, errs)
			for i, req := range reqs {
				v, err := gates[1].Do(ctx, gate.Allow, req)
				if !reflect.DeepEqual(v, decisions[i]) || fmt.Sprint(err) != fmt.Sprint(errs[i]) {
					t.Fatalf("request %d of %+v: got as a batch\n%+v, %v\nwant one by one\n%+v, %v", i, reqs, decisions[i], errs[i], v, err)
				}
			}
		}
		if a, b := metrics[0].read(t), metrics[1].read(t); !reflect.DeepEqual(a, b) {
			t.Fatalf("metrics: got as a batch\n%v\nwant one by one\n%v", a, b)
		}
	})
}

func drawRequest(t *rapid.T) gate.Request {
	return gate.Request{
		Policy:  rapid.SampledFrom([]string{"", "api", "second", "third", "none"}).Draw(t, "policy"),
		Key:     rapid.SampledFrom([]string{"ann", "bob", "vip-7", "vip-9", "robot", "bad", "friend"}).Draw(t, "key"),
		Address: rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}).Draw(t, "address"),
		Cost:    int64(rapid.IntRange(-1, 4).Draw(t, "cost")),
	}
}

func TestBatchIsOneCall(t *testing.T) {
	store := &recordingStore{Store: memory(t, newClock())}
	p := policyOf("p", "60/1h", "1000/1d")
	g := newGate(t, store, gate.Options{}, p)
	reqs := make([]gate.Request, 100)
	for i := range reqs {
		reqs[i] = gate.Request{Key: "ann", Cost: 1}
	}
	decisions, errs := make([]policy.Decision, 100), make([]error, 100)
	g.AllowBatch(ctx, reqs, decisions, errs)
	if got := store.applies.Load(); got != 1 {
		t.Errorf("100 requests: got %d calls to the store, want 1", got)
	}
	for i, v := range decisions {
		if errs[i] != nil || v.Decision.Allowed != (i < 60) || len(v.Decision.Answers) != 2 {
			t.Fatalf("request %d: got %+v, %v; want allowed %v with 2 answers", i, v, errs[i], i < 60)
		}
	}
	g.AllowBatch(ctx, nil, nil, nil)
	defer func() {
		if recover() == nil {
			t.Error("too few decisions: got no panic, want one")
		}
	}()
	g.AllowBatch(ctx, reqs, decisions[:1], errs)
}
