package gate_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/store"
)

func TestExplain(t *testing.T) {
	c := newClock() // 1,800,000,000s is a whole number of minutes and of hours
	p := richPolicy()
	p.Limits = limits("2/1h fixed-window", "9/10s sliding-log name=burst")
	p.Failure = store.FailLocal
	g := newGate(t, memory(t, c), gate.Options{}, p)
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 2})
	c.Advance(4_000_000)
	for _, x := range []struct {
		request gate.Request
		want    string
	}{
		{gate.Request{Key: "ann", Cost: 1}, `{"policy":"api","key":"ann","by":"limits","allowed":false,"refused":true,"shadow":false,"failure":"local","source":"store",` +
			`"limits":[{"limit":"2/1h fixed-window","allowed":false,"quota":2,"remaining":0,"retry_after_us":3596000000,"reset_after_us":3596000000},` +
			`{"limit":"9/10s sliding-log name=\"burst\"","name":"burst","allowed":true,"quota":9,"remaining":7,"retry_after_us":0,"reset_after_us":6000000}]}`},
		{gate.Request{Key: "bob", Cost: 10}, `{"policy":"api","key":"bob","by":"limits","allowed":false,"refused":true,"shadow":false,"failure":"local","source":"store",` +
			`"limits":[{"limit":"2/1h fixed-window","allowed":false,"quota":2,"remaining":2,"retry_after_us":null,"reset_after_us":0},` +
			`{"limit":"9/10s sliding-log name=\"burst\"","name":"burst","allowed":false,"quota":9,"remaining":9,"retry_after_us":null,"reset_after_us":0}]}`},
		{gate.Request{Key: "vip-8", Cost: 1}, `{"policy":"api","key":"vip-8","by":"limits","allowed":true,"refused":false,"shadow":false,"failure":"local","source":"store","override":"vip-*",` +
			`"limits":[{"limit":"3/1h","allowed":true,"quota":3,"remaining":3,"retry_after_us":0,"reset_after_us":0}]}`},
		{gate.Request{Key: "robot", Cost: 1}, `{"policy":"api","key":"robot","by":"unlimited","allowed":true,"refused":false,"shadow":false,"failure":"local","override":"robot"}`},
		{gate.Request{Key: "ann", Address: netip.MustParseAddr("192.0.2.7"), Cost: 1},
			`{"policy":"api","key":"ann","by":"block_list","allowed":false,"refused":true,"shadow":false,"failure":"local","list":"192.0.2.0/24"}`},
		{gate.Request{Key: "evil-twin", Cost: 1}, `{"policy":"api","key":"evil-twin","by":"block_list","allowed":false,"refused":true,"shadow":false,"failure":"local","list":"key:evil-*"}`},
		{gate.Request{Key: "friend", Cost: 1}, `{"policy":"api","key":"friend","by":"allow_list","allowed":true,"refused":false,"shadow":false,"failure":"local","list":"key:friend"}`},
	} {
		if !x.request.Address.IsValid() {
			x.request.Address = netip.MustParseAddr("198.51.100.1") // on no list
		}
		for range 2 { // the second time checks that the first charged nothing
			e, err := g.Explain(ctx, x.request)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(e)
			if err != nil || string(got) != x.want {
				t.Errorf("%+v: got\n%s (%v), want\n%s", x.request, got, err, x.want)
			}
		}
	}
}
