// Command release makes the folder of a release, from a clean tree, as dist/VERSION: the modules as a proxy for the go command, archives of
// the program for all platforms, Debian packages, container images, lists of what is in the program, and checksums of all of these.
//
//	release VERSION
//
// It is run in its own folder, where it has its dependencies, and works on the repository above. The folder depends only on the tree and on
// the version of Go: two of them made in different places are equal, bit for bit. All times in it are the date of the version in
// CHANGELOG.md, so it is also the same before the tree is committed and tagged.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	if err := run("../..", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// repository is the path of the root module, and where the project is.
const repository = "github.com/slidegate/slidegate"

// release is a release that is being made.
type release struct {
	root    string    // the folder of the repository
	version string    // such as v0.1.0
	time    time.Time // of all files in it
	folder  string    // where it is made
	scratch string    // a temporary folder

	programs map[platform]string // the paths of the binaries
}

// number returns the version without the v, as file names and packages have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// run makes the release of the repository at root.
func run(root string, args []string) (err error) {
	if len(args) != 1 {
		return errors.New("VERSION is missing; give it as in make release VERSION=v0.1.0")
	}
	r := &release{version: args[0], programs: map[platform]string{}}
	if semver.Canonical(r.version) != r.version {
		return fmt.Errorf("VERSION: %q is not a version; write it as v0.1.0", r.version)
	}
	if r.root, err = filepath.Abs(root); err != nil {
		return err
	}
	if err := checkClean(r.root); err != nil {
		return err
	}
	if r.time, err = dateOf(filepath.Join(r.root, "CHANGELOG.md"), r.number()); err != nil {
		return err
	}
	if r.scratch, err = os.MkdirTemp("", "slidegate-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.scratch)
	r.folder = filepath.Join(r.root, "dist", r.version)
	if err := os.RemoveAll(r.folder); err != nil {
		return err
	}
	return r.make()
}

// make makes the folder, step by step.
func (r *release) make() error {
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"modules", r.writeModules},
		{"vulnerabilities", r.checkVulnerabilities},
		{"programs", r.build},
		{"archives", r.writeArchives},
		{"lists of modules", r.writeBOMs},
		{"Debian packages", r.writeDebs},
		{"images", r.writeImages},
		{"checksums", r.writeSums},
	} {
		fmt.Printf("%s: %s\n", time.Now().Format(time.TimeOnly), step.name)
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w\nTo undo what has changed in the tree: git checkout -- '*go.mod' '*go.sum'", step.name, err)
		}
	}
	return r.printNext()
}

// writeModules sets the version in the go.mod and go.sum files of the tree, and writes the modules.
func (r *release) writeModules() error {
	command := exec.Command("go", "run", "./modules", "release", r.version, r.modules())
	command.Dir = filepath.Join(r.root, "tools")
	command.Env = append(os.Environ(), "GOWORK=off", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10))
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// modules returns the folder of the modules.
func (r *release) modules() string { return filepath.Join(r.folder, "modules") }

// tags returns the tags of the modules in the folder: v0.1.0 for the root, redisstore/v0.1.0 for one below it.
func (r *release) tags() (tags []string, err error) {
	root := filepath.Join(r.modules(), filepath.FromSlash(repository))
	err = filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(file) != r.version+".mod" {
			return err
		}
		module, err := filepath.Rel(root, filepath.Dir(filepath.Dir(file)))
		tags = append(tags, strings.TrimPrefix(filepath.ToSlash(module)+"/"+r.version, "./"))
		return err
	})
	return tags, err
}

// printNext prints what the publisher does next.
func (r *release) printNext() error {
	tags, err := r.tags()
	if err != nil {
		return err
	}
	fmt.Printf("\ndist/%s is complete. The go.mod and go.sum files of the tree now require %s, too.\n"+
		"CONTRIBUTING.md, Releasing, says how to try it. Then commit these files and nothing else, tag that commit, and push it with its tags:\n\n"+
		"  git commit --all --message 'Release %s'\n  for tag in %s; do git tag $tag; done\n  git push --atomic origin HEAD %s\n",
		r.version, r.version, r.version, strings.Join(tags, " "), strings.Join(tags, " "))
	return nil
}
