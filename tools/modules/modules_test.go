package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// usersOwn lists what a user's program might require itself, at versions that are not the newest.
var usersOwn = []string{
	"google.golang.org/grpc v1.75.0",
	"google.golang.org/protobuf v1.36.8",
	"go.opentelemetry.io/otel v1.38.0",
	"go.opentelemetry.io/otel/sdk v1.38.0",
	"github.com/redis/go-redis/v9 v9.12.1",
	"github.com/redis/rueidis v1.0.50",
	"github.com/jackc/pgx/v5 v5.7.4",
	"github.com/prometheus/client_golang v1.22.0",
	"github.com/klauspost/compress v1.18.0",
	"github.com/goccy/go-yaml v1.18.0",
	"github.com/rs/zerolog v1.32.0",
	"github.com/fsnotify/fsnotify v1.8.0",
	"golang.org/x/net v0.43.0",
	"golang.org/x/sys v0.35.0",
}

// Importing a part of Slidegate raises the user's own requirements only where that part needs them.
func TestRaisesNothing(t *testing.T) {
	w := openWorkshop(t)
	before := resolve(t, w)
	for _, test := range []struct {
		module string
		own    string // the client that the module is for; its own requirements may be raised too
	}{
		{module: repository},
		{module: repository + "/redisstore", own: "github.com/redis/rueidis"},
	} {
		after := resolve(t, w, test.module)
		var allowed []string
		if test.own != "" {
			allowed = append(requirements(t, test.own, after[test.own]), test.own)
		}
		var raised []string
		for path, version := range before {
			if after[path] != version && !slices.Contains(allowed, path) {
				raised = append(raised, path+" "+version+" to "+after[path])
			}
		}
		if len(before) != len(usersOwn) || len(raised) > 0 {
			t.Errorf("%s raises %d of the user's own %d requirements, want none: %s",
				test.module, len(raised), len(before), strings.Join(raised, ", "))
		}
	}
}

// A module that requires something is noticed by the same count, so the check above can fail.
func TestRaisesWhatItRequires(t *testing.T) {
	w := openWorkshop(t)
	before, after := resolve(t, w), resolve(t, w, repository+"/cmd/slidegate")
	raised := 0
	for path, version := range before {
		if after[path] != version {
			raised++
		}
	}
	if raised < 10 {
		t.Errorf("the program raises %d of %d requirements, want most of them: is the count right?", raised, len(before))
	}
}

func openWorkshop(t *testing.T) *workshop {
	t.Helper()
	tree, err := openTree("../..")
	if err != nil {
		t.Fatal(err)
	}
	w, err := open(tree, false)
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// resolve returns the versions of usersOwn in a program that also requires these modules of ours.
func resolve(t *testing.T, w *workshop, ours ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	mod := "module example.com/user\n\ngo 1.26.0\n\nrequire (\n\t" + strings.Join(usersOwn, "\n\t") + "\n"
	for _, path := range ours {
		mod += "\t" + path + " " + w.version + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod+")\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-m", "all")
	list.Dir, list.Env = dir, w.proxy.env()
	var problems strings.Builder
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -m all: %v\n%s", err, problems.String())
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.ContainsFunc(usersOwn, func(own string) bool { return strings.HasPrefix(own, path+" ") }) {
			versions[path] = version
		}
	}
	return versions
}

// requirements returns what a module itself requires.
func requirements(t *testing.T, path, version string) (paths []string) {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", path+"@"+version).Output()
	if err != nil {
		t.Fatalf("go mod download %s@%s: %v\n%s", path, version, err, out)
	}
	_, rest, _ := strings.Cut(string(out), `"GoMod": "`)
	file, _, _ := strings.Cut(rest, `"`)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.ParseLax(file, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, require := range mod.Require {
		paths = append(paths, require.Mod.Path)
	}
	return paths
}

func TestOrder(t *testing.T) {
	core := &module{dir: ".", path: repository, imports: []string{repository + "/rule"}}
	store := &module{dir: "store", path: repository + "/store", imports: []string{repository + "/rule", repository}}
	program := &module{dir: "cmd/x", path: repository + "/cmd/x", imports: []string{repository + "/store/sub", repository + "/rule"}}
	ordered, err := sortModules([]*module{program, store, core})
	if err != nil || !slices.Equal(ordered, []*module{core, store, program}) {
		t.Errorf("got %v, %v, want the core, the store, the program", ordered, err)
	}
	core.imports = []string{repository + "/cmd/x"}
	if _, err = sortModules([]*module{program, store, core}); err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("three modules that require one another: got %v, want an error about a circle", err)
	}
}

// An import that is in no module is an error that contains its whole path.
func TestOwnerMissing(t *testing.T) {
	store := &module{dir: "store", path: repository + "/store", imports: []string{repository + "/rule/sub"}}
	if _, err := sortModules([]*module{store}); err == nil || !strings.Contains(err.Error(), "store: imports "+repository+"/rule/sub, which is in no module") {
		t.Errorf("got %v, want an error that names the module and the import", err)
	}
}

// A release that does not build leaves the go.mod and go.sum files as they were.
func TestFailedReleaseIsUndone(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.work":        "go 1.26.0\n\nuse (\n\t.\n\t./store\n)\n",
		"LICENSE":        "of the tests\n",
		"go.mod":         "module " + repository + "\n\ngo 1.26.0\n",
		"go.sum":         "",
		"core.go":        "package slidegate\n\nvar Number int = \"not a number\"\n",
		"store/go.mod":   "module " + repository + "/store\n\ngo 1.26.0\n",
		"store/store.go": "package store\n\nimport _ \"" + repository + "\"\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	if out, err := exec.Command("git", "init", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	tree, err := openTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{scratch: filepath.Join(t.TempDir(), "scratch")}
	if w.tree, err = tree.copyTo(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.tree.dir, "store", "go.mod"), "module "+repository+"/store\n\ngo 1.26.0\n\nrequire "+repository+" v0.0.0\n")
	before, err := readModFiles(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err = w.apply(tree, "v0.1.0", filepath.Join(t.TempDir(), "modules")); err == nil || !strings.Contains(err.Error(), "have been restored") {
		t.Errorf("got %v, want an error that says that the files have been restored", err)
	}
	after, err := readModFiles(tree)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range before {
		if string(after[file]) != string(text) || (after[file] == nil) != (text == nil) {
			t.Errorf("%s has become %q, want %q", file, after[file], text)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A tree that has been released requires all of its modules at that version. None of these requirements remains, because no proxy may
// have that version yet, and later it has another tree.
func TestSiblingsAreReplaced(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module "+repository+"/store\n\ngo 1.26.0\n\nrequire (\n\texample.com/other v1.0.0\n\t"+
		repository+" v0.1.0\n\t"+repository+"/internal/yamlfile v0.1.0 // indirect\n)\n")
	if err := setSiblings(dir, []string{repository}, "v0.0.0-tree.1"); err != nil {
		t.Fatal(err)
	}
	mod, err := readMod(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, require := range mod.Require {
		got = append(got, require.Mod.String())
	}
	if want := []string{"example.com/other@v1.0.0", repository + "@v0.0.0-tree.1"}; !slices.Equal(got, want) {
		t.Errorf("got the requirements %v, want %v", got, want)
	}
}

func TestReleasedNeedsReleased(t *testing.T) {
	kit := &module{dir: "test", path: repository + "/test"}
	store := &module{dir: "store", path: repository + "/store", imports: []string{repository + "/test/kit"}}
	if _, err := sortModules([]*module{kit, store}); err == nil || !strings.Contains(err.Error(), "never released") {
		t.Errorf("a store that requires the test kit: got %v, want an error that says that the kit is never released", err)
	}
	store.dir = "cmd/x/internal/e2e"
	if _, err := sortModules([]*module{kit, store}); err != nil {
		t.Errorf("a module that is not released itself: got %v, want no error", err)
	}
}

// The core requires only what its tests need, and that only if it requires nothing itself.
func TestCoreRequiresNothing(t *testing.T) {
	mod, err := readMod("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, require := range mod.Require {
		if require.Mod.Path != "pgregory.net/rapid" {
			t.Errorf("the core requires %s; want nothing but rapid, for its tests", require.Mod)
		}
	}
	if len(mod.Replace) > 0 {
		t.Errorf("the core has %d replace directives, want none", len(mod.Replace))
	}
}

// No module has a replace directive: users do not get them, so they would hide what users see.
func TestNoReplace(t *testing.T) {
	tree, err := openTree("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tree.modules {
		mod, err := readMod(filepath.Join(tree.dir, m.dir))
		if err != nil {
			t.Fatal(err)
		}
		if len(mod.Replace) > 0 {
			t.Errorf("%s: has a replace directive, want none", m.dir)
		}
		want := "1.25.0"
		if m.dir == "cmd/slidegate" || strings.HasPrefix(m.dir, "kvstore/nats") || !m.released() {
			want = "1.26.0"
		}
		if mod.Go.Version != want {
			t.Errorf("%s: go %s, want %s: 1.25.0 in what programs import, unless one of its requirements needs more", m.dir, mod.Go.Version, want)
		}
	}
}
