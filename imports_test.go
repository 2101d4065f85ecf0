package slidegate_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/slidegate/slidegate"

// floors assigns a floor to each package. A package may import only packages on lower floors: never one on its own floor or
// above. A package that is not listed is on the floor of its parent directory.
var floors = map[string]int{
	"rule":  0,
	"store": 1, // what store authors build on
	".":     2,

	"clientip":  3, // a leaf that the middleware, config, replay and the server use
	"memstore":  4,
	"storetest": 4,
	"layer":     4,
	"internal":  4,
	"test":      4,
	"policy":    5, // the engine under the middleware and the service: its failure modes are a layer and a memstore
	"rulings":   6, // what operators decide about keys, for the middleware and the service
	"httplimit": 7,
	"grpclimit": 8, // writes headers with httplimit
	"config":    8, // policy files, also for the middleware
	"cmd":       20,
	"examples":  20,

	"internal/statecode":  1, // the bytes of states, for the stores
	"kvstore/serverclock": 3, // the clocks of engines

	"config/claims":   0, // verifies bearer tokens
	"config/errtext":  0, // how errors quote what users wrote
	"config/yamlfile": 1, // how config and the Envoy listener read files

	"cmd/slidegate/internal/jsonscan":        0, // finds members of JSON lines
	"cmd/slidegate/internal/listen":          0, // opens the addresses that flags name
	"cmd/slidegate/internal/systemd":         0, // sockets from systemd, and notifications to it
	"cmd/slidegate/internal/replay":          11,
	"cmd/slidegate/internal/replay/routing":  9,  // which policies of a file apply to recorded requests
	"cmd/slidegate/internal/replay/traffic":  10, // shared by replay, generate and report
	"cmd/slidegate/internal/replay/generate": 11,
	"cmd/slidegate/internal/replay/report":   12, // prints the results of replay

	"cmd/slidegate/internal/problemjson": 8, // leaves that the listeners use
	"cmd/slidegate/internal/throttlelog": 5,
	"cmd/slidegate/internal/connlimit":   5,
	"cmd/slidegate/internal/proxy":       12, // the listener in front of an application

	"cmd/slidegate/internal/server":            15,
	"cmd/slidegate/internal/server/latency":    0,  // measures how long decisions take
	"cmd/slidegate/internal/server/windows":    0,  // bounds the windows of limits that clients send
	"cmd/slidegate/internal/server/seal":       9,  // the key that signs reservations
	"cmd/slidegate/internal/server/rulingsapi": 12, // how operators change rulings
	"cmd/slidegate/internal/server/gate":       10, // what all listeners of the server call
	"cmd/slidegate/internal/server/stores":     11, // opens the stores that the gate uses
	"cmd/slidegate/internal/server/jsonapi":    12, // the listeners do not depend on one another
	"cmd/slidegate/internal/server/forward":    12,
	"cmd/slidegate/internal/server/envoy":      12,
	"cmd/slidegate/internal/server/resp":       12,
}

// standardOnly lists the packages that depend on the standard library only, so that using them downloads nothing else.
var standardOnly = []string{
	".", "rule", "store", "memstore", "storetest", "clientip", "policy", "rulings", "httplimit", "layer/coalesce", "layer/denycache",
	"layer/failure", "layer/lease", "internal/leakcheck", "internal/testkit", "internal/statecode", "kvstore", "kvstore/kvtest",
}

func floorOf(t *testing.T, pkg string) int {
	t.Helper()
	for at := pkg; ; at = path.Dir(at) {
		if floor, ok := floors[at]; ok && (at != "." || pkg == ".") {
			return floor
		}
		if at == "." {
			t.Fatalf("package %s has no floor; add it to floors in this test", pkg)
		}
		if strings.HasSuffix(at, "store") {
			return floors["memstore"]
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for pkg, imports := range packages(t) {
		for _, imported := range imports {
			inside, ours := strings.CutPrefix(imported, module)
			if !ours {
				standard := !strings.Contains(strings.Split(imported, "/")[0], ".")
				if !standard && slices.Contains(standardOnly, pkg) {
					t.Errorf("%s imports %s, but may import only the standard library", pkg, imported)
				}
				continue
			}
			other := path.Clean("./" + inside)
			if floorOf(t, other) >= floorOf(t, pkg) && !within(pkg, other) {
				t.Errorf("%s imports %s, which is not on a lower floor", pkg, other)
			}
		}
	}
}

// within reports whether one of pkg and other is internal to the other.
func within(pkg, other string) bool {
	return pkg != "." && other != "." && (strings.HasPrefix(other, pkg+"/") || strings.HasPrefix(pkg, other+"/"))
}

// packages returns the imports of each package of all modules, without tests.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(file)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(file))
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			found[pkg] = append(found[pkg], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 3 {
		t.Fatalf("found only the packages %v; the test searches the wrong directories", found)
	}
	return found
}

// enter skips directories that are not shipped to users.
func enter(dir string) error {
	base := filepath.Base(dir)
	if dir != "." && (base == "testdata" || strings.HasPrefix(base, ".")) || slices.Contains([]string{"bench", "test", "tools"}, dir) {
		return filepath.SkipDir
	}
	return nil
}

// Modules are versioned independently, so no module may import the internal packages of another: the two may be used in
// versions that do not match.
func TestModulesShareNothingInternal(t *testing.T) {
	for pkg, imports := range packages(t) {
		for _, imported := range imports {
			inside, ours := strings.CutPrefix(imported, module+"/")
			if ours && strings.Contains("/"+inside+"/", "/internal/") && moduleOf(pkg) != moduleOf(inside) {
				t.Errorf("%s imports %s, which is internal to another module", pkg, inside)
			}
		}
	}
}

// moduleOf returns the directory of the module that a package belongs to.
func moduleOf(pkg string) string {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, err := os.Stat(filepath.Join(filepath.FromSlash(pkg), "go.mod")); err == nil {
			return pkg
		}
	}
	return pkg
}
