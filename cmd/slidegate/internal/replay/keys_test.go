package replay

import (
	"strings"
	"testing"
)

func TestKeysAreNumberedInOrderOfFirstSight(t *testing.T) {
	k := newKeys()
	long := strings.Repeat("long", 50_000)
	first := []string{"b", "", "a", "b", "\x00", "\x00\x00", long, "", long + "!", "b\x00"}
	want := []uint32{0, 1, 2, 0, 3, 4, 5, 1, 6, 7}
	for i, name := range first {
		if got := k.number([]byte(name)); got != want[i] || k.name(got) != name {
			t.Errorf("key %d: got number %d of %.20q, want %d of %.20q", i, got, k.name(got), want[i], name)
		}
	}
	if k.len() != 8 {
		t.Errorf("got %d keys, want 8", k.len())
	}
}

func TestReachKeepsValues(t *testing.T) {
	var s []int
	for _, key := range []uint32{2, 1, 0, 3, 1000, 999} {
		s = reach(s, key)
		s[key] = int(key) + 1
	}
	if len(s) != 1001 {
		t.Fatalf("got %d values, want 1001", len(s))
	}
	for key, v := range s {
		want := 0
		if key <= 3 || key >= 999 {
			want = key + 1
		}
		if v != want {
			t.Fatalf("key %d: got value %d, want %d", key, v, want)
		}
	}
}
