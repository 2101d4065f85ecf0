package gate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

// TestOnRefused: OnRefused is called for every refused key, by all operations, and for no other key.
func TestOnRefused(t *testing.T) {
	file, err := config.Parse("f", []byte("policies:\n  api: {limits: [1/1h], block: ['key:bad']}\n  watched: {limits: [1/1h], shadow: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	g, err := New(file, store, Options{OnRefused: func(r Refusal) { got = append(got, fmt.Sprint(r.Policy, " ", r.Key, " ", r.By, " ", r.Shadow)) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, req := range []Request{{Policy: "api", Key: "a", Cost: 1}, {Policy: "api", Key: "bad", Cost: 1}, {Policy: "watched", Key: "w", Cost: 1}, {Policy: "watched", Key: "w", Cost: 1}} {
		if _, err := g.Do(ctx, Allow, req); err != nil {
			t.Fatal(err)
		}
	}
	reqs := []Request{{Policy: "api", Key: "a", Cost: 1}, {Policy: "api", Key: "b", Cost: 1}, {Policy: "api", Key: "a", Cost: 0}}
	g.AllowBatch(ctx, reqs, make([]policy.Decision, 3), make([]error, 3))
	if _, err := g.Do(ctx, Peek, reqs[0]); err != nil {
		t.Fatal(err)
	}
	if want := []string{"api bad block_list false", "watched w limits true", "api a limits false", "api a limits false"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
