package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// publish publishes the modules of a tree to a proxy, and changes the tree: it sets the siblings that a module requires to
// the version, and tidies the module once they are published. If all is set, it includes modules that are never released.
func (t *tree) publish(p *proxy, version string, all bool) error {
	for _, m := range t.modules {
		if !m.released() && !all {
			continue
		}
		dir := filepath.Join(t.dir, m.dir)
		if err := setSiblings(dir, m.siblings, version); err != nil {
			return err
		}
		if err := goCommand(dir, p.env(), "mod", "tidy"); err != nil {
			return fmt.Errorf("%s: %w", m.dir, err)
		}
		if err := p.add(dir, m.path, version); err != nil {
			return fmt.Errorf("%s: %w", m.dir, err)
		}
	}
	return nil
}

// setSiblings makes a go.mod require these modules of the repository at a version, and no others: what only siblings need, go mod tidy adds.
func setSiblings(dir string, siblings []string, version string) error {
	mod, err := readMod(dir)
	if err != nil {
		return err
	}
	for _, require := range slices.Clone(mod.Require) { // after a release also what only siblings need, at a version that may be newer
		if isOurs(require.Mod.Path) {
			if err := mod.DropRequire(require.Mod.Path); err != nil {
				return err
			}
		}
	}
	for _, path := range siblings {
		if err := mod.AddRequire(path, version); err != nil {
			return err
		}
	}
	mod.Cleanup()
	text, err := mod.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644); err != nil {
		return err
	}
	return dropSiblingSums(dir)
}

// dropSiblingSums removes the checksums of the repository's own modules, which belong to an earlier tree.
func dropSiblingSums(dir string) error {
	file := filepath.Join(dir, "go.sum")
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, repository+" ") && !strings.HasPrefix(line, repository+"/") {
			kept.WriteString(line)
		}
	}
	if kept.Len() == 0 {
		return os.Remove(file)
	}
	return os.WriteFile(file, []byte(kept.String()), 0o644)
}

// newVersion returns a version that is unique to this run: concurrent runs share the module cache, and each removes what it has put
// there.
func newVersion() string {
	return "v0.0.0-tree." + strings.ToLower(rand.Text())
}

func goCommand(dir string, env []string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func goEnv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
