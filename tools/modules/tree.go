package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

// tree is a checkout of the repository, or a copy of one.
type tree struct {
	dir     string
	modules []*module // each after those that it requires
}

// module is one Go module of the tree.
type module struct {
	dir      string // relative to the folder of the tree
	path     string
	imports  []string // the packages of the tree that its packages import
	siblings []string // the paths of the other modules of the tree that those packages are in
}

// untagged lists the folders whose modules are never released: they are for development, and may require modules that users
// should not need. The same holds for a module inside an internal folder of a program.
var untagged = []string{"bench", "examples", "test", "tools"}

func (m *module) released() bool {
	parts := strings.Split(filepath.ToSlash(m.dir), "/")
	return !slices.Contains(untagged, parts[0]) && !(parts[0] == "cmd" && slices.Contains(parts, "internal"))
}

// openTree reads go.work and the go.mod files that it uses.
func openTree(dir string) (*tree, error) {
	file := filepath.Join(dir, "go.work")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(file, text, nil)
	if err != nil {
		return nil, err
	}
	var found []*module
	for _, use := range work.Use {
		m, err := readModule(dir, filepath.Clean(use.Path))
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	ordered, err := sortModules(found)
	return &tree{dir: dir, modules: ordered}, err
}

func readModule(tree, dir string) (*module, error) {
	mod, err := readMod(filepath.Join(tree, dir))
	if err != nil {
		return nil, err
	}
	if mod.Module == nil {
		return nil, fmt.Errorf("%s/go.mod: has no module line", dir)
	}
	m := &module{dir: dir, path: mod.Module.Mod.Path}
	m.imports, err = importsOf(filepath.Join(tree, dir))
	return m, err
}

// importsOf returns the packages of the repository that a module imports, in tests too. The go.mod does not list them: before the
// first release there is no version of a sibling that it could require.
func importsOf(root string) (imports []string, err error) {
	err = walkModule(root, func(file string) error {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if isOurs(path) && !slices.Contains(imports, path) {
				imports = append(imports, path)
			}
		}
		return nil
	})
	return imports, err
}

// isOurs reports whether a path is the path of the root module, or below it.
func isOurs(path string) bool { return strings.HasPrefix(path+"/", repository+"/") }

// walkModule calls visit for every Go file of a module.
func walkModule(root string, visit func(file string) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"
			if path != root && (err == nil || hidden) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			return visit(path)
		}
		return nil
	})
}

func readMod(dir string) (*modfile.File, error) {
	file := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(file, text, nil)
}

// sortModules sorts modules so that each comes after those that it requires. It rejects a released module that requires one that is
// not, since users could not install it.
func sortModules(found []*module) ([]*module, error) {
	byPath := map[string]*module{}
	for _, m := range found {
		byPath[m.path] = m
	}
	for _, m := range found {
		m.siblings = nil
		for _, path := range m.imports {
			owner, err := ownerOf(path, byPath)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.dir, err)
			}
			if owner != m.path && !slices.Contains(m.siblings, owner) {
				m.siblings = append(m.siblings, owner)
			}
		}
		for _, path := range m.siblings {
			if m.released() && !byPath[path].released() {
				return nil, fmt.Errorf("%s: requires %s, which is never released; move what needs it there", m.dir, path)
			}
		}
	}
	var ordered []*module
	for len(ordered) < len(found) {
		before := len(ordered)
		for _, m := range found {
			ready := !slices.Contains(ordered, m) && !slices.ContainsFunc(m.siblings, func(path string) bool {
				return !slices.Contains(ordered, byPath[path])
			})
			if ready {
				ordered = append(ordered, m)
			}
		}
		if len(ordered) == before {
			return nil, fmt.Errorf("these modules require one another in a circle: %v", names(found, ordered))
		}
	}
	return ordered, nil
}

// ownerOf returns the path of the module that a package is in.
func ownerOf(imported string, byPath map[string]*module) (string, error) {
	for owner := imported; owner != "." && owner != "/"; owner = path.Dir(owner) {
		if byPath[owner] != nil {
			return owner, nil
		}
	}
	return "", fmt.Errorf("imports %s, which is in no module of go.work; add the module with go work use", imported)
}

// names returns the folders of the modules that are not among the others.
func names(found, others []*module) (dirs []string) {
	for _, m := range found {
		if !slices.Contains(others, m) {
			dirs = append(dirs, m.dir)
		}
	}
	return dirs
}

// copyTo copies the files that git tracks, and new files that are not ignored, to another folder.
func (t *tree) copyTo(dir string) (*tree, error) {
	list := exec.Command("git", "-C", t.dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for _, file := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(t.dir, file), filepath.Join(dir, file)); err != nil {
			return nil, err
		}
	}
	copied, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	return copied, copied.addLicenses()
}

// addLicenses adds the license of the root to every module, as the go command does when it downloads one of several
// modules of a repository.
func (t *tree) addLicenses() error {
	for _, m := range t.modules {
		to := filepath.Join(t.dir, m.dir, "LICENSE")
		if _, err := os.Stat(to); err == nil {
			continue
		}
		if err := copyFile(filepath.Join(t.dir, "LICENSE"), to); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return nil // deleted, but still tracked by git
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
