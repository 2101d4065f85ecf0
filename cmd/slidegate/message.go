package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/options"
)

// flagError is an error about a flag, named as on the command line.
type flagError struct {
	flag string // one flag or several, optionally with the value
	err  error
}

// inFlag returns err as an error about a flag.
func inFlag(flag string, err error) error { return &flagError{flag, err} }

// Error returns the flag and the text of the error.
func (e *flagError) Error() string { return e.flag + ": " + e.err.Error() }

// Unwrap returns the error without the flag.
func (e *flagError) Unwrap() error { return e.err }

// joinedType is the type that errors.Join returns.
var joinedType = reflect.TypeOf(errors.Join(io.EOF))

// splitErrors returns the errors that err joins, or err itself.
func splitErrors(err error) (all []error) {
	if reflect.TypeOf(err) != joinedType {
		return []error{err}
	}
	for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, splitErrors(one)...)
	}
	return all
}

// message returns the text of err for the user of the command line: with flags in place of options, and without package names. It
// relies on the types of errors, never on their texts.
func (c *console) message(err error) string {
	if parts := splitErrors(err); len(parts) > 1 || parts[0] != err {
		var all []string
		for _, one := range parts {
			all = append(all, c.message(one))
		}
		return strings.Join(all, "\n")
	}
	switch e := err.(type) {
	case *flagError:
		return e.flag + ": " + c.message(e.err)
	case *options.Error:
		return strings.Join(append(c.location(e), c.message(e.Err)), ": ")
	case *slidegate.LimitError:
		if e.Text == "" {
			return e.Err.Error()
		}
		return fmt.Sprintf("%v (in %q)", e.Err, e.Text)
	}
	return err.Error()
}

// location returns the names under which the user finds an option: the flags that set it, or the field in the file that
// --config names.
func (c *console) location(e *options.Error) (names []string) {
	flags := c.flagsOf(e.Package + "." + e.Option)
	// These packages name options as the file does, except for the choice of a policy, which only a flag makes.
	isFileOption := e.Package == "gate" || e.Package == "config" && e.Option != "policy"
	if isFileOption {
		flags.field = e.Option
	}
	file := c.configFile()
	within := e.Within
	if isFileOption && file == "" {
		within = "" // the user has not named a policy that is made from flags
	}
	switch {
	case len(flags.given) > 0:
		names = []string{strings.Join(flags.given, ", "), within}
	case file != "" && flags.field != "":
		names = []string{file, within, flags.field}
	case len(flags.all) > 0:
		names = []string{strings.Join(flags.all, ", "), within}
	default:
		names = []string{within, e.Option}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// flagNames are the names of the flags that set an option.
type flagNames struct {
	all   []string
	given []string // the flags that have a value
	field string   // the field of a policy file that sets the option too; empty if none does
}

// flagsOf returns the flags that set an option. The tag "option" of a flag's field names the options that it sets, and the tag
// "file" the field of a policy file that sets the same.
func (c *console) flagsOf(option string) (names flagNames) {
	if c.node == nil {
		return names
	}
	for _, value := range c.node.Flags {
		if !slices.Contains(strings.Fields(value.Tag.Get("option")), option) {
			continue
		}
		name := "--" + value.Name
		if also := value.Tag.Get("also"); also != "" {
			name += " or " + also
		}
		names.all = append(names.all, name)
		names.field = value.Tag.Get("file")
		if !value.Target.IsZero() {
			names.given = append(names.given, name)
		}
	}
	return names
}

// configFile returns the policy files that the command was given, or "" if there are none.
func (c *console) configFile() string {
	if c.node != nil {
		for _, value := range c.node.Flags {
			if value.Name == "config" {
				paths, _ := value.Target.Interface().([]string)
				return strings.Join(paths, ", ")
			}
		}
	}
	return ""
}
