// Command modules keeps the Go modules of this repository together. They are released in lockstep. During development they require
// one another at versions that are not published yet, which go mod tidy and GOWORK=off cannot resolve. So this command creates a
// module proxy in a folder, from the tree, module by module in the order of their requirements, and makes the go command use it.
//
//	modules tidy                     go mod tidy for every module
//	modules check                    build every released module, and install the program, from the proxy alone, without go.work
//	modules release VERSION FOLDER   set the version everywhere, tidy, check, and write the modules to a folder, for GOPROXY=file://...
//
// It is run in the tools folder, where it has its dependencies, and works on the repository above.
package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/semver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modules:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: modules tidy | check | release VERSION FOLDER")

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	tree, err := openTree("..")
	if err != nil {
		return err
	}
	switch {
	case args[0] == "tidy" && len(args) == 1:
		return tidy(tree)
	case args[0] == "check" && len(args) == 1:
		return check(tree)
	case args[0] == "release" && len(args) == 3:
		version := args[1]
		if semver.Canonical(version) != version {
			return fmt.Errorf("release: %q is not a version such as v0.1.0", version)
		}
		return release(tree, version, args[2])
	}
	return errUsage
}
