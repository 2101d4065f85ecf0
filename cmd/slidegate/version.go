package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCommand prints the same as --version.
type versionCommand struct{}

// Run prints the version.
func (*versionCommand) Run(c *console) error {
	_, err := fmt.Fprintln(c.out, longVersion())
	return err
}

// version returns the version of the module, or of the checkout that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// longVersion returns the version, the commit, the version of Go and the platform. A program that was built from a module has no commit,
// but the version of the module.
func longVersion() string {
	built := ""
	if c := commit(); c != unknownCommit {
		built = "commit " + c + ", "
	}
	return fmt.Sprintf("slidegate %s (%s%s, %s/%s)", version(), built, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

const unknownCommit = "unknown"

// commit returns the commit that this program was built from.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return commitOf(info)
}

// commitOf returns the commit that a program was built from.
func commitOf(info *debug.BuildInfo) string {
	commit, changed := unknownCommit, ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = " with changes"
		}
	}
	return commit + changed
}
