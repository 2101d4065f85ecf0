package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// versionCommand prints what --version does.
type versionCommand struct{}

// Run prints it.
func (*versionCommand) Run(c *console) error {
	_, err := fmt.Fprintln(c.out, longVersion())
	return err
}

// helpCommand is --help for those who write it as a command. It never runs: withHelp makes the flag of it.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command to show the flags of."`
}

// withHelp returns arguments with --help where they ask for help in another way, or for nothing.
func withHelp(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	}
	return args
}

// version is the module's version, or that of the checkout it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// longVersion says exactly what this program was built from.
func longVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return fmt.Sprintf("slidegate %s (%s, %s, %s/%s)", version(), commitOf(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit names the commit that this program was built from.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return strings.TrimPrefix(commitOf(info), "commit ")
}

// commitOf names the commit that a program was built from.
func commitOf(info *debug.BuildInfo) string {
	commit, changed := "commit unknown", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = "commit " + setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = " with changes"
		}
	}
	return commit + changed
}
