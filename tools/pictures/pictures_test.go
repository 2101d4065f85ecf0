package main

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

func TestInWindow(t *testing.T) {
	steps, most := inWindow([]decision{{0, true}, {1_000, false}, {59_999, true}, {60_000, true}})
	want := []step{{0, 1}, {59_999, 2}, {60_000, 1}, {60_000, 2}, {119_999, 1}, {120_000, 0}}
	if !slices.Equal(steps, want) || most != 2 {
		t.Errorf("got %v, most %d, want %v, most 2", steps, most, want)
	}
}

// Arrows begin and end at the edges of rooms, and none points up.
func TestArrowsTouchRooms(t *testing.T) {
	find := func(name string) box {
		i := slices.IndexFunc(boxes, func(r box) bool { return r.name == name })
		if i < 0 {
			t.Fatalf("no room is named %q", name)
		}
		return boxes[i]
	}
	touches := func(r box, x, y int) bool { return x >= r.left && x <= r.right && y >= r.top && y <= r.bottom }
	for _, a := range arrows {
		n := len(a.line)
		if !touches(find(a.from), a.line[0], a.line[1]) || !touches(find(a.to), a.line[n-2], a.line[n-1]) {
			t.Errorf("the arrow from %s to %s does not touch both rooms", a.from, a.to)
		}
		if a.line[n-1] < a.line[1] {
			t.Errorf("the arrow from %s to %s points up", a.from, a.to)
		}
	}
}

// The picture is up to date: after a change of the rooms, run make draw.
func TestPictureIsUpToDate(t *testing.T) {
	drawn, err := os.ReadFile("../../docs/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn, drawArchitecture()) {
		t.Error("docs/architecture.svg is not what this program draws; run make draw")
	}
}
