package gate_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
)

// TestShareOfAKey: the share is of the limits by which the key is decided; there is none if no limit decides, and an error only if that is not known.
func TestShareOfAKey(t *testing.T) {
	file, err := config.Parse("f", []byte("policies: {api: {limits: [10/1m], plan: header:X-Plan, plans: {pro: {limits: [100/1m]}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, memory(t, newClock()), gate.Options{}, file.Policies...)
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 9})
	for _, x := range []struct {
		name, policy, key, plan string
		ruling                  *rulings.Ruling
		share                   float64
		limit                   string
	}{
		{"the policy's limits", "api", "ann", "", nil, 0.9, "10/1m"},
		{"those of a plan", "api", "ann", "pro", nil, 0.09, "100/1m"},
		{"a block", "api", "ann", "", &rulings.Ruling{Policy: "api", Key: "ann", Kind: rulings.Block}, 0, ""},
		{"an exemption", "api", "ann", "", &rulings.Ruling{Policy: "api", Key: "ann", Kind: rulings.Unlimited}, 0, ""},
		{"a policy that is gone", "gone", "ann", "", nil, 0, ""},
	} {
		var ruled []rulings.Ruling
		if x.ruling != nil {
			ruled = append(ruled, *x.ruling)
		}
		if err := g.SetRulings(ruled); err != nil {
			t.Fatal(err)
		}
		share, limit, err := g.Share(ctx, x.policy, x.key, x.plan)
		text := ""
		if limit != nil {
			text = limit.String()
		}
		if err != nil || share < x.share-1e-9 || share > x.share+1e-9 || text != x.limit {
			t.Errorf("%s: got %v of %q, %v, want %v of %q", x.name, share, text, err, x.share, x.limit)
		}
	}
}

// TestPoliciesThatVary: only those whose requests select other limits, by their plan.
func TestPoliciesThatVary(t *testing.T) {
	file, err := config.Parse("f", []byte(plansFile))
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, memory(t, newClock()), gate.Options{}, append(file.Policies, policyOf("plain", "10/1m"))...)
	want := map[string]bool{"api": true, "keyed": false, "plain": false}
	for _, p := range g.InForce() {
		if p.Varies != want[p.Name] {
			t.Errorf("%s varies: got %v, want %v", p.Name, p.Varies, want[p.Name])
		}
	}
}

// TestStateOfAPrefix: it has no counts, and the ruling and the history that are about the prefix itself.
func TestStateOfAPrefix(t *testing.T) {
	p := policyOf("api", "10/1m")
	p.Key = template("{address}")
	g := newGate(t, memory(t, newClock()), gate.Options{}, p)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	about := func(key string, kind rulings.Kind) rulings.Ruling {
		return rulings.Ruling{Policy: "api", Key: key, Kind: kind, Who: "eve", At: at}
	}
	log := []rulings.Ruling{about("203.0.113.0/24", rulings.Block), about("203.0.113.7", rulings.Block), about("203.0.113.0/25", rulings.Clear)}
	state := func(text string) gate.KeyState {
		k, err := g.State(ctx, gate.Request{Key: text, Cost: 1}, log)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if k := state("203.0.113.0/24"); !k.Prefix || k.Key != "203.0.113.0/24" || k.Ruling != nil || k.By != policy.ByLimits || k.Limits == nil || len(k.History) != 1 {
		t.Errorf("got %+v, want a prefix without a ruling, and one change", k)
	}
	if err := g.SetRulings([]rulings.Ruling{about("203.0.113.0/24", rulings.Block)}); err != nil {
		t.Fatal(err)
	}
	if k := state("203.0.113.0/24"); k.Ruling == nil || k.Ruling.Key != "203.0.113.0/24" || k.By != policy.ByRuling {
		t.Errorf("got %+v, want the block", k)
	}
	if k := state("203.0.113.0/25"); k.Ruling != nil {
		t.Errorf("got %+v, want no ruling about the smaller prefix", k)
	}
	if k := state("203.0.113.7"); k.Prefix || k.Ruling == nil || k.Ruling.Key != "203.0.113.0/24" || len(k.History) != 3 {
		t.Errorf("an address: got %+v, want the ruling that names the prefix, and all three changes", k)
	}
}
