package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// workshop is a copy of the tree, and a module proxy made from it.
type workshop struct {
	tree    *tree
	proxy   *proxy
	version string
	scratch string // for programs that use the modules
}

// open copies the tree and publishes the copy under a new version. Call close when done.
func open(from *tree, all bool) (*workshop, error) {
	dir, err := os.MkdirTemp("", "slidegate-modules-")
	if err != nil {
		return nil, err
	}
	w := &workshop{proxy: &proxy{filepath.Join(dir, "proxy")}, scratch: filepath.Join(dir, "scratch")}
	if w.tree, err = from.copyTo(filepath.Join(dir, "tree")); err != nil {
		return w, err
	}
	w.version = newVersion()
	return w, w.tree.publish(w.proxy, w.version, all)
}

// close removes everything that open created, including in the module cache.
func (w *workshop) close() error {
	if w == nil {
		return nil
	}
	if err := os.RemoveAll(filepath.Dir(w.scratch)); err != nil || w.version == "" {
		return err
	}
	return removeFromCache(w.version)
}

// tidy tidies all modules of the tree. They keep the version at which they require one another. The go.sum files have no
// checksums of that version, because they are known only when it is released.
func tidy(t *tree) (err error) {
	w, err := open(t, true)
	defer func() { err = firstOf(err, w.close()) }()
	if err != nil {
		return err
	}
	return w.copyBack(t, "")
}

// copyBack copies the tidied go.mod and go.sum files to the tree. Siblings are required at version or, if that is empty, at the
// version they had, if any, without a checksum.
func (w *workshop) copyBack(t *tree, version string) error {
	for _, m := range t.modules {
		from, to := filepath.Join(w.tree.dir, m.dir), filepath.Join(t.dir, m.dir)
		if err := copyMod(from, to, version); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(to, "go.sum")); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := copyFile(filepath.Join(from, "go.sum"), filepath.Join(to, "go.sum")); err != nil {
			return err
		}
		if err := dropSiblingSums(to); err != nil {
			return err
		}
	}
	return nil
}

func copyMod(from, to, version string) error {
	before, err := readMod(to)
	if err != nil {
		return err
	}
	now, err := readMod(from)
	if err != nil {
		return err
	}
	released := releasedVersion(before)
	if version != "" {
		released = version
	}
	for _, require := range slices.Clone(now.Require) {
		switch {
		case !isOurs(require.Mod.Path):
		case released == "":
			err = now.DropRequire(require.Mod.Path)
		default:
			err = now.AddRequire(require.Mod.Path, released)
		}
		if err != nil {
			return err
		}
	}
	now.Cleanup()
	text, err := now.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "go.mod"), text, 0o644)
}

// releasedVersion returns the version at which a go.mod requires modules of the tree, which is the same for all. It is empty
// before the first release, because a version that cannot be downloaded would be an error even with go.work.
func releasedVersion(mod *modfile.File) string {
	for _, require := range mod.Require {
		if isOurs(require.Mod.Path) {
			return require.Mod.Version
		}
	}
	return ""
}

// check builds everything that is released as a user would.
func check(t *tree) (err error) {
	w, err := open(t, false)
	defer func() { err = firstOf(err, w.close()) }()
	if err != nil {
		return err
	}
	for _, m := range w.tree.modules {
		if !m.released() {
			continue
		}
		fmt.Println("module", m.path)
		if err := w.buildAsUser(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// buildAsUser installs a module that is a program. For any other module, it builds a new program that imports all packages of the
// module.
func (w *workshop) buildAsUser(m *module) error {
	dir := filepath.Join(w.scratch, strings.ReplaceAll(m.dir, string(filepath.Separator), "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if m.dir != "." && filepath.Dir(m.dir) == "cmd" {
		return goCommand(dir, append(w.proxy.env(), "GOBIN="+dir), "install", m.path+"@"+w.version)
	}
	packages, err := w.packages(m)
	if err != nil {
		return err
	}
	program := "package main\n\nimport (\n"
	for _, path := range packages {
		program += fmt.Sprintf("\t_ %q\n", path)
	}
	program += ")\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/user"}, {"get", m.path + "@" + w.version}, {"build", "-o", os.DevNull, "."},
	} {
		if err := goCommand(dir, w.proxy.env(), args...); err != nil {
			return err
		}
	}
	return nil
}

// packages returns the import paths of a module's packages that users can import.
func (w *workshop) packages(m *module) (paths []string, err error) {
	root := filepath.Join(w.tree.dir, m.dir)
	err = walkModule(root, func(file string) error {
		below, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		imported := path.Join(m.path, filepath.ToSlash(below))
		parts := strings.Split(imported, "/")
		importable := !slices.Contains(parts, "internal") && !slices.Contains(parts, "examples") && !strings.HasSuffix(file, "_test.go")
		if importable && !slices.Contains(paths, imported) {
			paths = append(paths, imported)
		}
		return nil
	})
	return paths, err
}

// release prepares the tree for a version: it sets requirements and checksums as they will be published. It writes the modules to a
// folder.
func release(t *tree, version, folder string) (err error) {
	w, err := open(t, true)
	defer func() { err = firstOf(err, w.close()) }()
	if err != nil {
		return err
	}
	return w.apply(t, version, folder)
}

// apply sets the version in the tree and verifies it there. If that fails, it restores the tree.
func (w *workshop) apply(t *tree, version, folder string) error {
	before, err := readModFiles(t)
	if err != nil {
		return err
	}
	if err = w.copyBack(t, version); err == nil {
		err = w.verify(t, version, folder)
	}
	if err == nil {
		return nil
	}
	if failed := before.restore(); failed != nil {
		return fmt.Errorf("%w\ngo.mod and go.sum files have been changed, and restoring them failed: %w\n"+
			"Undo the changes with git checkout -- '*go.mod' '*go.sum'", err, failed)
	}
	return fmt.Errorf("%w\nThe go.mod and go.sum files have been restored", err)
}

// modFiles are the contents of go.mod and go.sum files by their paths; nil for one that does not exist.
type modFiles map[string][]byte

// readModFiles reads the go.mod and go.sum files of all modules of a tree.
func readModFiles(t *tree) (modFiles, error) {
	files := modFiles{}
	for _, m := range t.modules {
		for _, name := range []string{"go.mod", "go.sum"} {
			file := filepath.Join(t.dir, m.dir, name)
			text, err := os.ReadFile(file)
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			files[file] = text
		}
	}
	return files, nil
}

// restore writes the files as they were read.
func (f modFiles) restore() (err error) {
	for file, text := range f {
		if text != nil {
			err = firstOf(err, os.WriteFile(file, text, 0o644))
		} else if failed := os.Remove(file); !os.IsNotExist(failed) {
			err = firstOf(err, failed)
		}
	}
	return err
}

// verify writes the checksums of the version, and builds every module with them from a proxy in the folder, which has only this version.
// The version is not published yet, so it must not get into the module cache: verify uses a separate one.
func (w *workshop) verify(t *tree, version, folder string) error {
	copied, err := writeSums(t, version, filepath.Join(w.scratch, "release"))
	if err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	p := &proxy{folder}
	env := append(p.env(), "GOMODCACHE="+filepath.Join(w.scratch, "release-cache"), "GOFLAGS=-mod=readonly -modcacherw -trimpath", "CGO_ENABLED=0",
		"GOPROXY=file://"+filepath.ToSlash(p.dir)+",file://"+goEnv("GOMODCACHE")+"/cache/download,"+goEnv("GOPROXY"))
	for _, m := range copied.modules {
		if !m.released() {
			continue
		}
		dir := filepath.Join(copied.dir, m.dir)
		if err := p.add(dir, m.path, version); err != nil {
			return err
		}
		fmt.Println("module", m.path)
		if err := goCommand(dir, env, "build", "./..."); err != nil {
			return fmt.Errorf("%s at %s: %w", m.path, version, err)
		}
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
