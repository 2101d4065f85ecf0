package gate_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

func TestReloadLogsChanges(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	g := newGate(t, memory(t, newClock()), gate.Options{Logger: log},
		policyOf("kept", "2/1h"), policyOf("raised", "2/1h"), policyOf("reshaped", "2/1h"), policyOf("gone", "2/1h"))
	for _, name := range []string{"kept", "raised", "reshaped"} {
		mustAllow(t, g, gate.Request{Policy: name, Key: "secret-ann", Cost: 2})
	}
	raised := policyOf("raised", "5/1h")
	raised.Overrides = []policy.Override{{Key: "secret-bob", Limits: limits("7/1m")}}
	next := &config.File{
		Policies: []config.Policy{policyOf("kept", "2/1h"), raised, policyOf("reshaped", "2/2h"), policyOf("new", "1/1s")},
		Service:  config.Service{Store: "redis://u:password@host"},
	}
	if err := g.Reload(next); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"kept": 0, "raised": 3, "reshaped": 2, "new": 1} {
		if v, err := g.Do(ctx, gate.Peek, gate.Request{Policy: name, Key: "secret-ann", Cost: 1}); err != nil || v.Decision.Remaining != want {
			t.Errorf("%s: got %d left, want %d (%v)", name, v.Decision.Remaining, want, err)
		}
	}
	if err := g.Reload(next); err != nil {
		t.Fatal(err)
	}
	bad := &config.File{Policies: []config.Policy{policyOf("kept", "9/1h"), {Name: "empty"}}}
	if err := g.Reload(bad); err == nil || !strings.Contains(err.Error(), `policy "empty": limits`) {
		t.Errorf("a policy without limits: got %v, want an error with %q", err, `policy "empty": limits`)
	}
	if v, _ := g.Do(ctx, gate.Peek, gate.Request{Policy: "kept", Key: "new", Cost: 1}); v.Decision.Quota != 2 {
		t.Errorf("after a bad file: got %+v, want the previous quota, 2", v)
	}
	want := `level=INFO msg="limit does not continue the previous counts, because its name or shape is new; it starts empty, or with what it counted when it was last in force" policy=raised limit=7/1m
level=INFO msg="limit does not continue the previous counts, because its name or shape is new; it starts empty, or with what it counted when it was last in force" policy=reshaped limit=2/2h
level=INFO msg="policies reloaded" added=[new] removed=[gone] changed="[raised reshaped]" policies=4
level=INFO msg="policies reloaded: nothing changed" policies=4
`
	if text.String() != want {
		t.Errorf("got the log\n%s\nwant\n%s", text.String(), want)
	}
}

// TestReloadBringsALimitBack: a limit that returns within its window continues its own counts, and the log does not say
// otherwise.
func TestReloadBringsALimitBack(t *testing.T) {
	var text bytes.Buffer
	g := newGate(t, memory(t, newClock()), gate.Options{Logger: slog.New(slog.NewTextHandler(&text, nil))}, policyOf("p", "100/1m"))
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 60})
	for _, limit := range []string{"100/2m", "100/1m"} {
		if err := g.Reload(&config.File{Policies: []config.Policy{policyOf("p", limit)}}); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := g.Do(ctx, gate.Peek, gate.Request{Key: "ann", Cost: 1}); err != nil || v.Decision.Remaining != 40 {
		t.Errorf("got %+v, %v, want 40 remaining", v, err)
	}
	if got := text.String(); strings.Contains(got, "limit starts empty") || strings.Count(got, "it counted when it was last in force") != 2 {
		t.Errorf("got the log\n%s\nwant it to say twice that the limit has other counts, and not that they are empty", got)
	}
}

// TestReloadUnderLoad reloads between two files whose policies differ in every quota, while many goroutines send
// requests: no request may see both files, and no unit may be lost or granted twice.
func TestReloadUnderLoad(t *testing.T) {
	files := [2]*config.File{}
	for i := range files {
		first, second := policyOf("first", fmt.Sprintf("%d/1h name=a", 1000+i), fmt.Sprintf("%d/1d name=b", 1000+i)), policyOf("second", fmt.Sprintf("%d/1h", 1000+i))
		first.Key, second.Key = template("{method}"), template("{method}")
		files[i] = &config.File{Policies: []config.Policy{first, second}, Service: config.Service{Default: "first"}}
	}
	st := memory(t, newClock())
	g, err := gate.New(files[0], st, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var callers, reloading sync.WaitGroup
	var stop atomic.Bool
	var admitted [2]atomic.Int64 // under first and second
	check := func(v policy.Decision, err error) bool {
		if err != nil {
			t.Error(err)
			return false
		}
		for _, l := range v.Limits {
			if l.Quota != v.Limits[0].Quota || v.Decision.Quota != l.Quota {
				t.Errorf("got %+v, want all limits of one answer from one file", v)
			}
		}
		return v.Decision.Allowed
	}
	for range 4 {
		callers.Go(func() {
			r := httptest.NewRequest("GET", "/", nil)
			reqs := []gate.Request{{Key: "GET", Cost: 1}, {Policy: "second", Key: "GET", Cost: 1}}
			decisions, errs := make([]policy.Decision, 2), make([]error, 2)
			for range 300 {
				if check(g.CheckRequest(ctx, r)) {
					admitted[0].Add(1)
					admitted[1].Add(1)
				}
				g.AllowBatch(ctx, reqs, decisions, errs)
				if decisions[0].Limits[0].Quota != decisions[1].Limits[0].Quota {
					t.Errorf("got %+v, want all decisions of one batch from one file", decisions)
				}
				for i := range decisions {
					if check(decisions[i], errs[i]) {
						admitted[i].Add(1)
					}
				}
			}
		})
	}
	reloading.Go(func() {
		for i := 1; !stop.Load(); i++ {
			if err := g.Reload(files[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	callers.Wait()
	stop.Store(true)
	reloading.Wait()
	for i := range admitted {
		if got := admitted[i].Load(); got < 1000 || got > 1001 { // of 2,400 requested
			t.Errorf("%d units were admitted of policy %d, want 1000, or 1001 by the other file", got, i)
		}
	}
}

func TestNewRejects(t *testing.T) {
	st := memory(t, newClock())
	change := func(f func(*config.Policy)) []config.Policy {
		p := policyOf("p", "1/1h")
		f(&p)
		return []config.Policy{p}
	}
	for _, c := range []struct {
		policies []config.Policy
		service  config.Service
		want     string
	}{
		{nil, config.Service{}, "no policies"},
		{[]config.Policy{policyOf("p", "1/1h"), policyOf("p", "1/1h")}, config.Service{}, "duplicate"},
		{change(func(p *config.Policy) { p.Key = template("{status}") }), config.Service{}, "recorded traffic only"},
		{change(func(p *config.Policy) { p.Key = template("{field:user.id}") }), config.Service{}, "recorded traffic only"},
		{change(func(p *config.Policy) { p.Match = config.Routes("GET /{") }), config.Service{}, "match"},
		{change(func(p *config.Policy) { p.Limits = []slidegate.Limit{{Quota: -1}} }), config.Service{}, "limits"},
		{change(func(p *config.Policy) { p.Overrides = []policy.Override{{Key: "ann"}} }), config.Service{}, "override 1"},
		{change(func(p *config.Policy) { p.Limits = limits("1/1h", "2/1h") }), config.Service{}, "different names"},
		{change(func(*config.Policy) {}), config.Service{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, "trusted_proxies"},
		{change(func(p *config.Policy) { p.Cost, _ = fields.ParseCost("bytes") }), config.Service{}, "write a number"},
	} {
		g, err := gate.New(&config.File{Policies: c.policies, Service: c.service}, st, gate.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "gate: ") && !strings.HasPrefix(err.Error(), "config: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, %v; want an error with %q", c.policies, g, err, c.want)
		}
	}
	if _, err := gate.New(nil, st, gate.Options{}); err == nil {
		t.Error("New of a nil file: got no error, want one")
	}
	_, err := gate.New(&config.File{Policies: change(func(p *config.Policy) { p.Limits[0].Quota = 0 })}, st, gate.Options{})
	if !errors.Is(err, slidegate.ErrLimit) {
		t.Errorf("an invalid limit: got %v, want slidegate.ErrLimit", err)
	}
}

// A policy's limits are unnamed in its namespace. A new quota or failure mode keeps the counts.
func TestReloadChangesQuotaAndFailureMode(t *testing.T) {
	p := policyOf("api", "5/1h")
	p.Failure = store.FailOpen
	g := newGate(t, memory(t, newClock()), gate.Options{}, p)
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 3})
	for _, failure := range []store.Mode{store.FailClosed, store.FailLocal, store.FailOpen} {
		p = policyOf("api", "9/1h")
		p.Failure = failure
		if err := g.Reload(&config.File{Policies: []config.Policy{p}}); err != nil {
			t.Fatal(err)
		}
		p.Shadow = true
		if err := g.Reload(&config.File{Policies: []config.Policy{p}}); err != nil {
			t.Fatal(err)
		}
		if v, err := g.Do(ctx, gate.Peek, gate.Request{Key: "ann", Cost: 1}); err != nil || v.Decision.Remaining != 6 {
			t.Errorf("%v: got %+v, %v; want 6 remaining", failure, v, err)
		}
	}
}

// TestOverridesCountAsThePolicyDoes: a key that gets an override with a larger quota keeps what it has used, although
// the larger quota alone would imply another algorithm; and limits are labelled as they are written.
func TestOverridesCountAsThePolicyDoes(t *testing.T) {
	p := policyOf("p", "60/1m")
	g := newGate(t, memory(t, newClock()), gate.Options{}, p)
	req := gate.Request{Policy: "p", Key: "vip", Cost: 3}
	if v, err := g.Do(ctx, gate.Allow, req); err != nil || v.Decision.Remaining != 57 || v.Decision.LimitName != "60/1m" {
		t.Fatalf("got %+v, %v; want 57 remaining of 60/1m", v, err)
	}
	p.Overrides = []policy.Override{{Key: "vip", Limits: limits("600/1m")}}
	if err := g.Reload(&config.File{Policies: []config.Policy{p}}); err != nil {
		t.Fatal(err)
	}
	if v, err := g.Do(ctx, gate.Allow, req); err != nil || v.Decision.Remaining != 594 || v.Decision.LimitName != "600/1m" {
		t.Errorf("got %+v, %v; want 594 remaining of 600/1m", v, err)
	}
	r, _, err := g.Take(ctx, gate.Reserve, req)
	if err != nil {
		t.Fatal(err)
	}
	done, err := g.End(ctx, gate.Settle, "p", r, slidegate.Used{Limit: "600/1m", Cost: 1})
	if err != nil || gate.Label(&done.Limits[0]) != "600/1m" || done.Decision.Answers[0].Granted != 2 {
		t.Errorf("settling by the text: got %+v, %v; want 2 refunded to 600/1m", done, err)
	}
}
