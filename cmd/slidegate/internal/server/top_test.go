package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestTopOrder(t *testing.T) {
	var top topKeys
	for i, n := range []int{3, 5, 1} {
		for range n {
			top.add("api", string(rune('a'+i)), "")
		}
	}
	top.add("login", "b", "") // the same key of another policy is another one
	got := ""
	for _, k := range top.list(3) {
		got += fmt.Sprintf("%s/%s %d %d\n", k.Policy, k.Key, k.Refused, k.TooMany)
	}
	if want := "api/b 5 0\napi/a 3 0\napi/c 1 0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if all := top.list(100); len(all) != 4 || all[3].Policy != "login" {
		t.Errorf("all: %+v", all)
	}
	if top.list(-1) == nil || len(new(topKeys).list(5)) != 0 {
		t.Error("an empty list is not a list")
	}
}

// TestTopFlood: among a flood of keys that are refused once each, those that are refused again and again are found, and their
// numbers are right within what they say.
func TestTopFlood(t *testing.T) {
	var top topKeys
	want := map[string]int64{}
	for i := range 100_000 {
		top.add("api", fmt.Sprint("once", i), "")
		if i%100 == 0 {
			key := fmt.Sprint("often", i/100%3)
			top.add("api", key, "")
			want[key]++
		}
	}
	list := top.list(3)
	for _, k := range list {
		if n, ok := want[k.Key]; !ok || k.Refused < n || k.Refused-k.TooMany > n {
			t.Errorf("%+v, it was refused %d times", k, n)
		}
	}
	if len(top.known) != maxTopKeys || len(top.least) != maxTopKeys {
		t.Errorf("%d and %d are remembered", len(top.known), len(top.least))
	}
}

func TestTopLongKeys(t *testing.T) {
	var top topKeys
	top.add("api", strings.Repeat("k", 1<<20), "")
	if k := top.list(1)[0]; len(k.Key) != 256 {
		t.Errorf("a key of %d bytes is kept", len(k.Key))
	}
}

func TestTopConcurrent(t *testing.T) {
	var top topKeys
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 5000 {
				top.add("api", fmt.Sprint(j%1500+i), "")
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
	if sum != 40_000 { // whoever takes a place takes its count too, so that none is lost
		t.Errorf("%d refusals are remembered, not 40000", sum)
	}
}
