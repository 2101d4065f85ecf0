package top

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestOrder(t *testing.T) {
	var top Top
	for i, n := range []int{3, 5, 1} {
		for range n {
			top.Refused("api", string(rune('a'+i)))
		}
	}
	top.Refused("login", "b") // the same key of another policy is another one
	got := ""
	for _, k := range top.List(3) {
		got += fmt.Sprintf("%s/%s %d %d\n", k.Policy, k.Key, k.Refused, k.TooMany)
	}
	if want := "api/b 5 0\napi/a 3 0\napi/c 1 0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if all := top.List(100); len(all) != 4 || all[3].Policy != "login" {
		t.Errorf("all: %+v", all)
	}
	if top.List(-1) == nil || len(new(Top).List(5)) != 0 {
		t.Error("an empty list is not a list")
	}
}

// TestFlood: among a flood of keys that are refused once each, those that are refused again and again are found, and their
// numbers are right within what they say.
func TestFlood(t *testing.T) {
	var top Top
	want := map[string]int64{}
	for i := range 100_000 {
		top.Refused("api", fmt.Sprint("once", i))
		if i%100 == 0 {
			key := fmt.Sprint("often", i/100%3)
			top.Refused("api", key)
			want[key]++
		}
	}
	list := top.List(3)
	for _, k := range list {
		if n, ok := want[k.Key]; !ok || k.Refused < n || k.Refused-k.TooMany > n {
			t.Errorf("%+v, it was refused %d times", k, n)
		}
	}
	if len(top.known) != MaxKeys || len(top.least) != MaxKeys {
		t.Errorf("%d and %d are remembered", len(top.known), len(top.least))
	}
}

func TestLongKeys(t *testing.T) {
	var top Top
	top.Refused("api", strings.Repeat("k", 1<<20))
	if k := top.List(1)[0]; len(k.Key) != 256 {
		t.Errorf("a key of %d bytes is kept", len(k.Key))
	}
}

func TestConcurrent(t *testing.T) {
	var top Top
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 5000 {
				top.Refused("api", fmt.Sprint(j%1500+i))
				if j%1000 == 0 {
					top.List(10)
				}
			}
		})
	}
	all.Wait()
	var sum int64
	for _, k := range top.List(MaxKeys) {
		sum += k.Refused
	}
	if sum != 40_000 { // whoever takes a place takes its count too, so that none is lost
		t.Errorf("%d refusals are remembered, not 40000", sum)
	}
}
