package repotest_test

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	drawnRoom  = regexp.MustCompile(`data-room="([^"]+)" data-packages="([^"]+)"`)
	drawnArrow = regexp.MustCompile(`data-from="([^"]+)" data-to="([^"]+)"`)
)

// TestArchitecturePictureIsTrue checks that the arrows of docs/architecture.svg are imports, and that every import between two
// rooms is an arrow, or follows from several arrows. Small packages that are in no room are not drawn.
func TestArchitecturePictureIsTrue(t *testing.T) {
	svg, err := os.ReadFile("docs/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string]string{} // by package pattern
	for _, m := range drawnRoom.FindAllStringSubmatch(string(svg), -1) {
		for pattern := range strings.FieldsSeq(m[2]) {
			rooms[pattern] = m[1]
		}
	}
	imports := roomImports(t, rooms)
	arrows := map[string][]string{}
	for _, m := range drawnArrow.FindAllStringSubmatch(string(svg), -1) {
		from, to := m[1], m[2]
		arrows[from] = append(arrows[from], to)
		if !imports[from][to] {
			t.Errorf("the picture has an arrow from %s to %s, but nothing in %s imports %s: change tools/pictures/architecture.go, and run make draw", from, to, from, to)
		}
	}
	if len(arrows) < 10 {
		t.Fatalf("found the arrows of only %d rooms: the test does not parse the picture correctly", len(arrows))
	}
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		for _, to := range slices.Sorted(maps.Keys(imports[from])) {
			if !reaches(arrows, from, to) {
				t.Errorf("%s imports %s, but no arrows of the picture lead there: change tools/pictures/architecture.go, and run make draw", from, to)
			}
		}
	}
}

// roomImports returns which rooms import which others, derived from their packages.
func roomImports(t *testing.T, rooms map[string]string) map[string]map[string]bool {
	t.Helper()
	imports := map[string]map[string]bool{}
	used := map[string]bool{}
	for pkg, imported := range packages(t) {
		from := roomOf(rooms, pkg)
		used[from] = true
		for _, other := range imported {
			inside, ours := strings.CutPrefix(other, module)
			to := roomOf(rooms, path.Clean("./"+inside))
			if !ours || from == "" || to == "" || from == to {
				continue
			}
			if imports[from] == nil {
				imports[from] = map[string]bool{}
			}
			imports[from][to] = true
		}
	}
	for pattern, room := range rooms {
		if !used[room] {
			t.Errorf("the picture has a room %s for %s, but no such package exists", room, pattern)
		}
	}
	return imports
}

// roomOf returns the room of a package, or "" if the package is not drawn. A pattern is a package, or a folder followed by "/...".
func roomOf(rooms map[string]string, pkg string) string {
	if room, ok := rooms[pkg]; ok {
		return room
	}
	for at := pkg; ; at = path.Dir(at) {
		if room, ok := rooms[at+"/..."]; ok || at == "." {
			return room
		}
	}
}

// reaches reports whether arrows lead from one room to another.
func reaches(arrows map[string][]string, from, to string) bool {
	return slices.ContainsFunc(arrows[from], func(next string) bool { return next == to || reaches(arrows, next, to) })
}
