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

// floors says how high in the house a package stands. A package imports only what stands lower: never a sibling on its
// own floor, and nothing above. What is not listed stands where the folder above it does.
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
	"httplimit": 6,
	"grpclimit": 7, // tells what is left by httplimit's writer
	"config":    7, // files of policies, for the middleware too
	"cmd":       20,
	"examples":  20,

	"internal/statecode": 1, // the bytes of states, for the stores

	"config/claims":   0, // verifies bearer tokens
	"config/wording":  0, // how errors speak of what people wrote
	"config/yamlfile": 1, // how config and the Envoy listener read files

	"cmd/slidegate/internal/jsonscan":        0, // finds members of JSON lines
	"cmd/slidegate/internal/listen":          0, // opens the addresses that flags name
	"cmd/slidegate/internal/systemd":         0, // sockets from systemd, and messages to it
	"cmd/slidegate/internal/replay":          10,
	"cmd/slidegate/internal/replay/facing":   8, // which policies of a file recorded requests face
	"cmd/slidegate/internal/replay/traffic":  9, // what replay, generate and report have in common
	"cmd/slidegate/internal/replay/generate": 10,
	"cmd/slidegate/internal/replay/report":   11, // prints what replay found

	"cmd/slidegate/internal/problemjson": 7, // leaves that the listeners use
	"cmd/slidegate/internal/throttlelog": 5,
	"cmd/slidegate/internal/connlimit":   5,
	"cmd/slidegate/internal/proxy":       12, // the listener before an application

	"cmd/slidegate/internal/server":         15,
	"cmd/slidegate/internal/server/latency": 0,  // how long decisions took
	"cmd/slidegate/internal/server/seal":    9,  // the key that signs what the gate hands out
	"cmd/slidegate/internal/server/rulings": 9,  // what operators decide while the gate runs
	"cmd/slidegate/internal/server/gate":    10, // what all listeners of the server ask
	"cmd/slidegate/internal/server/stores":  11, // opens the stores that the gate takes
	"cmd/slidegate/internal/server/jsonapi": 12, // the listeners do not know one another
	"cmd/slidegate/internal/server/forward": 12,
	"cmd/slidegate/internal/server/envoy":   12,
	"cmd/slidegate/internal/server/resp":    12,
}

// standardOnly are the packages that must not make anybody download anything.
var standardOnly = []string{
	".", "rule", "store", "memstore", "storetest", "clientip", "policy", "httplimit", "layer/coalesce", "layer/denycache",
	"layer/failure", "layer/lease", "internal/leakcheck", "internal/testkit", "internal/statecode", "kvstore", "kvstore/kvtest",
}

func floorOf(t *testing.T, pkg string) int {
	t.Helper()
	for at := pkg; ; at = path.Dir(at) {
		if floor, ok := floors[at]; ok && (at != "." || pkg == ".") {
			return floor
		}
		if at == "." {
			t.Fatalf("package %s has no floor: say in this test where in the house it stands", pkg)
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
					t.Errorf("%s imports %s, but is to need the standard library alone", pkg, imported)
				}
				continue
			}
			other := path.Clean("./" + inside)
			if floorOf(t, other) >= floorOf(t, pkg) && !within(pkg, other) {
				t.Errorf("%s imports %s, which does not stand below it", pkg, other)
			}
		}
	}
}

// within tells whether other is a part of pkg that pkg has for itself, or the other way round.
func within(pkg, other string) bool {
	return pkg != "." && other != "." && (strings.HasPrefix(other, pkg+"/") || strings.HasPrefix(pkg, other+"/"))
}

// packages returns what each package of all modules imports, tests left out.
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
		t.Fatalf("found only the packages %v: the test does not look where they are", found)
	}
	return found
}

// enter skips what no user gets.
func enter(dir string) error {
	base := filepath.Base(dir)
	if dir != "." && (base == "testdata" || strings.HasPrefix(base, ".")) || slices.Contains([]string{"bench", "test", "tools"}, dir) {
		return filepath.SkipDir
	}
	return nil
}

// Modules are versioned by themselves, so one must not reach into what another keeps to itself: the two may be used in
// versions that do not fit.
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

// moduleOf returns the folder of the module that a package is in.
func moduleOf(pkg string) string {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, err := os.Stat(filepath.Join(filepath.FromSlash(pkg), "go.mod")); err == nil {
			return pkg
		}
	}
	return pkg
}
