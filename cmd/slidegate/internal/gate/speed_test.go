package gate_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

func TestDecisionsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	g := newGate(t, memory(t, newClock()), gate.Options{Latency: gate.NewLatency(), Seen: seen.NewRecord(time.Now)}, policyOf("p", "100/1h"), richPolicy())
	reqs := []gate.Request{
		{Policy: "p", Key: "ann", Cost: 1}, {Policy: "api", Key: "vip-7", Cost: 1}, {Policy: "api", Key: "ann", Cost: 1},
		{Policy: "api", Key: "bad", Cost: 1}, {Policy: "api", Key: "robot", Cost: 1},
	}
	for _, req := range reqs {
		if got := testing.AllocsPerRun(200, func() {
			if _, err := g.Do(ctx, gate.Allow, req); err != nil {
				t.Error(err)
			}
		}); got != 0 {
			t.Errorf("Allow of %q under %q: got %v allocations, want none", req.Key, req.Policy, got)
		}
	}
	batch := make([]gate.Request, 100)
	for i := range batch {
		batch[i] = gate.Request{Policy: "p", Key: "ann", Cost: 1}
	}
	decisions, errs := make([]policy.Decision, 100), make([]error, 100)
	if got := testing.AllocsPerRun(100, func() { g.AllowBatch(ctx, batch, decisions, errs) }); got > 1 { // the garbage collector may empty the pool
		t.Errorf("a batch of 100: got %v allocations, want none", got)
	}
}

func benchStore(b *testing.B) *memstore.Store {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func benchKeys() []string {
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = fmt.Sprint("user-", i)
	}
	return keys
}

func BenchmarkLimiter(b *testing.B) {
	l, err := slidegate.New(slidegate.Namespace(benchStore(b), "p"), limits("1000000/1h")...)
	if err != nil {
		b.Fatal(err)
	}
	keys := benchKeys()
	i := 0
	for b.Loop() {
		if _, err := l.AllowN(ctx, keys[i&1023], 1); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkAllow(b *testing.B) { benchAllow(b, gate.Options{}) }

// BenchmarkAllowTimed is BenchmarkAllow as the service runs it, with one in 64 decisions timed.
func BenchmarkAllowTimed(b *testing.B) { benchAllow(b, gate.Options{Latency: gate.NewLatency()}) }

func benchAllow(b *testing.B, opts gate.Options) {
	g := newGate(b, benchStore(b), opts, policyOf("p", "1000000/1h"), richPolicy())
	keys := benchKeys()
	i := 0
	for b.Loop() {
		if _, err := g.Do(ctx, gate.Allow, gate.Request{Policy: "p", Key: keys[i&1023], Cost: 1}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkBatch100(b *testing.B) {
	g := newGate(b, benchStore(b), gate.Options{}, policyOf("p", "1000000/1h"))
	reqs := make([]gate.Request, 100)
	for i, key := range benchKeys()[:100] {
		reqs[i] = gate.Request{Policy: "p", Key: key, Cost: 1}
	}
	decisions, errs := make([]policy.Decision, 100), make([]error, 100)
	for b.Loop() {
		g.AllowBatch(ctx, reqs, decisions, errs)
	}
}

func BenchmarkCheckRequest(b *testing.B) {
	one, two := matching("one", "/api/", "{address}", "1000000/1h"), matching("two", "", "{host}", "1000000/1h")
	g := newGate(b, benchStore(b), gate.Options{}, one, two)
	r := httptest.NewRequest("GET", "http://h.example/api/x", nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.CheckRequest(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
}
