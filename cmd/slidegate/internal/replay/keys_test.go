package replay

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// These tests check that keys and numbers correspond one to one.

// numbersOf looks up keys together and returns their numbers.
func (k *keys) numbersOf(names ...string) []uint32 {
	var l lookup
	for _, name := range names {
		l.add([]byte(name))
	}
	numbers := make([]uint32, len(names))
	k.numbers(&l, func(i int, number uint32) { numbers[i] = number })
	return numbers
}

func TestKeysAreNumberedInOrderOfFirstSight(t *testing.T) {
	k := newKeys()
	long := strings.Repeat("long", 50_000)
	first := []string{"b", "", "a", "b", "\x00", "\x00\x00", long, "", long + "!", "b\x00"}
	want := []uint32{0, 1, 2, 0, 3, 4, 5, 1, 6, 7}
	got := k.numbersOf(first...)
	for i := range first {
		if got[i] != want[i] {
			t.Errorf("key %d: got number %d, want %d", i, got[i], want[i])
		}
		if k.name(got[i]) != first[i] {
			t.Errorf("number %d: got name %.20q, want %.20q", got[i], k.name(got[i]), first[i])
		}
	}
	if k.len() != 8 {
		t.Errorf("got %d keys, want 8", k.len())
	}
}

// The list is reused, as in the feed.
func TestKeysAreAsInAMap(t *testing.T) {
	property(t, 100, func(t *rapid.T) {
		k := newKeys()
		want := map[string]uint32{}
		var names []string
		var l lookup
		for range rapid.IntRange(1, 60).Draw(t, "lists") {
			l.reset()
			var list []string
			for range rapid.IntRange(0, lookupSize).Draw(t, "keys") {
				list = append(list, strconv.Itoa(rapid.IntRange(0, 4000).Draw(t, "key")))
				l.add([]byte(list[len(list)-1]))
			}
			index := 0
			k.numbers(&l, func(i int, number uint32) {
				if i != index {
					t.Fatalf("got the result for %d at %d", i, index)
				}
				name := list[index]
				index++
				if _, known := want[name]; !known {
					want[name] = uint32(len(names))
					names = append(names, name)
				}
				if number != want[name] {
					t.Fatalf("%q: got number %d, want %d", name, number, want[name])
				}
			})
			if index != len(list) || k.len() != len(names) {
				t.Fatalf("got %d results for %d keys, and %d keys in total, want %d", index, len(list), k.len(), len(names))
			}
		}
	})
}

// The table grows many times, also within a list.
func TestManyKeys(t *testing.T) {
	const many = 150_000
	k := newKeys()
	for round := range 2 {
		for from := 0; from < many; from += 3 * lookupSize {
			var names []string
			for i := from; i < min(many, from+3*lookupSize); i++ {
				names = append(names, "user-"+strconv.Itoa(i))
			}
			for i, number := range k.numbersOf(names...) {
				if int(number) != from+i {
					t.Fatalf("round %d: %s: got number %d, want %d", round, names[i], number, from+i)
				}
			}
		}
		if k.len() != many {
			t.Fatalf("round %d: %d keys, want %d", round, k.len(), many)
		}
	}
	for i := 0; i < many; i += 997 {
		if want := "user-" + strconv.Itoa(i); k.name(uint32(i)) != want {
			t.Fatalf("number %d: got name %q, want %q", i, k.name(uint32(i)), want)
		}
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
