package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	xmod "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// writeSums writes the checksums of the repository's own modules at a version into the go.sum files of the released modules, in
// order: a checksum covers the go.sum of the module itself. They are what the go command will compute from the tags. It returns the
// copy of the tree that they were computed from.
func writeSums(t *tree, version, scratch string) (*tree, error) {
	copied, err := t.copyTo(scratch)
	if err != nil {
		return nil, err
	}
	known := map[string][]string{}
	for _, m := range copied.modules {
		if !m.released() {
			continue
		}
		dir := filepath.Join(copied.dir, m.dir)
		mod, err := readMod(dir)
		if err != nil {
			return nil, err
		}
		var lines []string
		for _, require := range mod.Require { // also what only siblings of siblings need
			lines = append(lines, known[require.Mod.Path]...)
		}
		if err := replaceSums(dir, lines); err != nil {
			return nil, err
		}
		if err := copyFile(filepath.Join(dir, "go.sum"), filepath.Join(t.dir, m.dir, "go.sum")); err != nil {
			return nil, err
		}
		if known[m.path], err = sumsOf(dir, m.path, version); err != nil {
			return nil, err
		}
	}
	return copied, nil
}

// replaceSums replaces the lines of a go.sum about the repository's own modules.
func replaceSums(dir string, lines []string) error {
	if err := dropSiblingSums(dir); err != nil {
		return err
	}
	file := filepath.Join(dir, "go.sum")
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	all = slices.DeleteFunc(append(all, lines...), func(line string) bool { return line == "" })
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return os.WriteFile(file, []byte(strings.Join(all, "\n")+"\n"), 0o644)
}

// sumsOf returns the two lines of go.sum about a module.
func sumsOf(dir, path, version string) ([]string, error) {
	file := filepath.Join(os.TempDir(), "slidegate-sum-"+strings.ReplaceAll(path, "/", "-")+".zip")
	defer os.Remove(file)
	out, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	err = zip.CreateFromDir(out, xmod.Version{Path: path, Version: version}, dir)
	if err := firstOf(err, out.Close()); err != nil {
		return nil, err
	}
	whole, err := dirhash.HashZip(file, dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, "go.mod"))
	})
	return []string{path + " " + version + " " + whole, path + " " + version + "/go.mod " + mod}, err
}
