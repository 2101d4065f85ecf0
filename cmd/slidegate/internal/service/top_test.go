package service

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

func TestTopOrder(t *testing.T) {
	var top topKeys
	for i, n := range []int{3, 5, 1} {
		for range n {
			top.add(gate.Refusal{Policy: "api", Key: string(rune('a' + i))})
		}
	}
	top.add(gate.Refusal{Policy: "login", Key: "b"}) // the same key of another policy is a different key
	got := ""
	for _, k := range top.list(3) {
		got += fmt.Sprintf("%s/%s %d %d\n", k.Policy, k.Key, k.Refused, k.TooMany)
	}
	if want := "api/b 5 0\napi/a 3 0\napi/c 1 0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if all := top.list(100); len(all) != 4 || all[3].Policy != "login" {
		t.Errorf("all: got %+v", all)
	}
	if top.list(-1) == nil || len(new(topKeys).list(5)) != 0 {
		t.Error("got nil, want an empty list")
	}
}

// TestTopFlood: among a flood of keys that are refused once each, keys that are refused repeatedly are found, and their counts are
// right within their stated error.
func TestTopFlood(t *testing.T) {
	var top topKeys
	want := map[string]int64{}
	for i := range 100_000 {
		top.add(gate.Refusal{Policy: "api", Key: fmt.Sprint("once", i)})
		if i%100 == 0 {
			key := fmt.Sprint("often", i/100%3)
			top.add(gate.Refusal{Policy: "api", Key: key})
			want[key]++
		}
	}
	list := top.list(3)
	for _, k := range list {
		if n, ok := want[k.Key]; !ok || k.Refused < n || k.Refused-k.TooMany > n {
			t.Errorf("got %+v, want %d refusals within the error", k, n)
		}
	}
	if len(top.entries) != maxTopKeys || len(top.least) != maxTopKeys {
		t.Errorf("got %d and %d remembered keys", len(top.entries), len(top.least))
	}
}

func TestTopLongKeys(t *testing.T) {
	var top topKeys
	top.add(gate.Refusal{Policy: "api", Key: strings.Repeat("k", 1<<20)})
	if k := top.list(1)[0]; len(k.Key) != 256 {
		t.Errorf("got a key of %d bytes", len(k.Key))
	}
}

func TestTopConcurrent(t *testing.T) {
	var top topKeys
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 5000 {
				top.add(gate.Refusal{Policy: "api", Key: fmt.Sprint(j%1500 + i)})
				if j%1000 == 0 {
					top.list(10)
				}
			}
		})
	}
	all.Wait()
	var sum int64
	for _, k := range top.list(maxTopKeys) {
		sum += k.Refused
	}
	if sum != 40_000 { // a new key inherits the count of the one it replaces, so that none is lost
		t.Errorf("got %d refusals, want 40000", sum)
	}
}
