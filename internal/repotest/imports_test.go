package repotest_test

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
	"rule":               -3,
	"internal/answering": -2, // what limiters and layers do with answers
	"internal/leases":    -2, // the rule for units that are spent later
	"internal/port":      -2, // answers from what a port of the rule returns
	"internal/quick":     -2, // the rule for the most common requests
	"internal/settled":   -2, // how long settlements are remembered
	"internal/shape":     -2, // what a state belongs to
	"internal/summary":   -2, // what is kept of evicted states

	"internal/errtext":    -2, // how errors quote what users wrote
	"internal/lanes":      -1, // counters that many processors write
	"internal/options":    -1, // errors about options
	"internal/yamlfile":   0,  // how config and the Envoy listener read files
	"internal/reply":      6,  // header fields and bodies, for the middleware and the service
	"internal/workload":   0,  // how much work requests are
	"internal/batches":    0,  // the errors of a batch
	"internal/blocks":     0,  // how long servers block a client
	"internal/line":       0,  // requests that wait their turn
	"internal/match":      0,  // which requests a pattern matches
	"internal/fields":     8,  // the parts of requests that policies name
	"internal/filelock":   -1, // one process at a time uses a file
	"internal/journal":    0,  // records that outlive a process
	"store":               -1, // what store authors build on
	"internal/storeurl":   0,  // the URLs of stores, for the packages that open them
	"internal/connect":    1,  // stores that connect in the background, for the packages that open them
	"internal/natsdriver": 2,  // a function of natskv that natsembed calls
	"internal/detach":     0,  // requests whose caller may leave
	"internal/layering":   0,  // the order of layers
	"internal/hook":       0,  // functions of the root that adapter publishes
	".":                   1,
	"internal/adapter":    2, // what packages of this repository need of limits and limiters, and users do not

	"clientip":   3, // a leaf that the middleware, config, replay and the server use
	"memstore":   3,
	"redisstore": 3,
	"pgstore":    3,
	"kvstore":    3,
	"storetest":  3,
	"layer":      3,
	"internal":   3,
	"test":       3,
	"policy":     3, // what users write in policies, and read in decisions
	"rulings":    4, // what operators decide about keys, for the middleware and the service
	"httplimit":  7,
	"grpclimit":  7,
	"config":     9, // policy files, also for the middleware
	"cmd":        20,
	"examples":   20,

	"internal/keyform":     4, // keys as requests have them
	"internal/ruled":       6, // applies rulings to policies
	"internal/engine":      5, // decides by policies, under the middleware and the service
	"internal/statecode":   1, // the bytes of states, for the stores
	"internal/serverclock": 2, // the clocks of engines
	"kvstore/natsembed":    5, // a server for natskv
	"layer/stack":          4, // puts the other layers over a store, with a memstore to count in this process

	"config/internal/claims": 0, // verifies bearer tokens

	"cmd/slidegate/internal/replay/jsonscan": 0, // finds members of JSON lines
	"cmd/slidegate/internal/service/listen":  0, // opens the addresses that flags name
	"cmd/slidegate/internal/service/systemd": 0, // sockets from systemd, and notifications to it
	"cmd/slidegate/internal/replay":          12,
	"cmd/slidegate/internal/replay/routing":  10, // which policies of a file apply to recorded requests
	"cmd/slidegate/internal/replay/traffic":  11, // shared by replay and report
	"cmd/slidegate/internal/replay/report":   13, // prints the results of replay

	"cmd/slidegate/internal/gate/problemjson":     8, // leaves that the listeners use
	"cmd/slidegate/internal/listener/throttlelog": 5,
	"cmd/slidegate/internal/listener/connlimit":   5,
	"cmd/slidegate/internal/listener/proxy":       12, // the listener in front of an application

	"cmd/slidegate/internal/service":             15,
	"cmd/slidegate/internal/instrument":          0,  // metrics as tables
	"cmd/slidegate/internal/listener/page":       0,  // what browsers get
	"cmd/slidegate/internal/look":                0,  // the style sheet of all pages
	"cmd/slidegate/internal/listener/windows":    0,  // bounds the windows of limits that clients send
	"cmd/slidegate/internal/listener/rulingsapi": 12, // how operators change rulings
	"cmd/slidegate/internal/seen":                9,  // what the gate and the listeners have decided
	"cmd/slidegate/internal/gate":                10, // what all listeners of the server call
	"cmd/slidegate/internal/open":                11, // opens the stores that the gate uses
	"cmd/slidegate/internal/listener/jsonapi":    12, // the listeners do not depend on one another
	"cmd/slidegate/internal/listener/forward":    12,
	"cmd/slidegate/internal/listener/envoy":      12,
	"cmd/slidegate/internal/listener/resp":       12,
	"cmd/slidegate/internal/e2e/browser":         21, // pages in a browser, for tests of the program
	"cmd/slidegate/internal/e2e/manifest":        21, // runs pods of manifests, for tests of the program
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
	}
}

func TestImportsPointDown(t *testing.T) {
	for pkg, imports := range packages(t) {
		for _, imported := range imports {
			inside, ours := strings.CutPrefix(imported, module)
			if !ours {
				standard := !strings.Contains(strings.Split(imported, "/")[0], ".")
				if !standard && moduleOf(pkg) == "." { // using the core downloads nothing else
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

// Modules share the internal packages of the core, which is released with them. No other module has anything to share.
func TestModulesShareOnlyTheCore(t *testing.T) {
	for pkg, imports := range packages(t) {
		for _, imported := range imports {
			inside, ours := strings.CutPrefix(imported, module+"/")
			if !ours || !strings.Contains("/"+inside+"/", "/internal/") || strings.HasPrefix(inside, "internal/") {
				continue
			}
			if owner := moduleOf(inside); owner != moduleOf(pkg) && !strings.HasPrefix(pkg, owner+"/") {
				t.Errorf("%s imports %s, which is internal to the module %s", pkg, inside, owner)
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
