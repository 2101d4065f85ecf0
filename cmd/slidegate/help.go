package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpCommand is --help as a command, and with the word all, --help with all flags. It never runs: withHelp turns it into the flag.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command to show the flags of, and all for those that --help only names."`
}

// withHelp returns the arguments with --help if they are empty or begin with the command help, and whether all flags are to be shown.
func withHelp(args []string) (flags []string, all bool) {
	switch {
	case len(args) == 0:
		return []string{"--help"}, false
	case args[0] != "help":
		return args, false
	}
	args = slices.DeleteFunc(slices.Clone(args[1:]), func(arg string) bool { return arg == "--help" })
	if last := len(args) - 1; last > 0 && args[last] == "all" {
		args, all = args[:last], true
	}
	return append(args, "--help"), all
}

// printHelp prints the help of a command. If flags of the command have the tag first, it explains only these, which a newcomer needs, and
// lists the names of the others, unless all are to be shown.
func printHelp(all bool) kong.HelpPrinter {
	return func(options kong.HelpOptions, ctx *kong.Context) error {
		node := ctx.Selected()
		if node == nil || all || !slices.ContainsFunc(node.Flags, isFirst) {
			return kong.DefaultHelpPrinter(options, ctx)
		}
		others := map[string]string{} // the names by group
		var groups []string
		for _, flags := range node.AllFlags(true) {
			for _, flag := range flags {
				if flag.Group == nil || isFirst(flag) {
					flag.Group = nil // one list
					continue
				}
				flag.Hidden = true
				if others[flag.Group.Title] == "" {
					groups = append(groups, flag.Group.Title)
				}
				others[flag.Group.Title] += " --" + flag.Name
			}
		}
		options.ValueFormatter = func(value *kong.Value) string { return value.Help } // without the variables
		if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
			return err
		}
		fmt.Fprintf(ctx.Stdout, "\nMore flags; \"slidegate help %s all\" explains them, and names their variables:\n", node.Path())
		for _, group := range groups {
			fmt.Fprintf(ctx.Stdout, "  %s\n", wrapNames(fmt.Sprintf("%-10s", group), others[group]))
		}
		return nil
	}
}

func isFirst(flag *kong.Flag) bool { return flag.Tag.Has("first") }

// wrapNames returns a title and names after it, in lines of up to 80 columns.
func wrapNames(title, names string) string {
	line, text := title, ""
	for _, name := range strings.Fields(names) {
		if len(line)+len(name) > 76 {
			text += line + "\n  "
			line = strings.Repeat(" ", len(title))
		}
		line += " " + name
	}
	return text + line
}
