package config

import "strings"

// OptionError reports an option, or a field of a file, that is invalid. What is configured returns it, so that a program can
// name the flag or the field by which people set the option, whatever the text says. Its own text names the package, the
// option, the cause and the fix, for logs. It is not changed after it is returned, and safe for concurrent use.
type OptionError struct {
	// Package is the package that the option belongs to.
	Package string
	// Within is what the option is a part of, such as a policy or a file; empty for an option of the package.
	Within string
	// Option is the name of the option, or the path to a field of it: TLS.Cert. It is empty where all of Within is meant.
	Option string
	// Err is what is wrong with it, and the fix, without the names above.
	Err error
}

// Error returns the names and what is wrong.
func (e *OptionError) Error() string {
	var b strings.Builder
	for _, name := range []string{e.Package, e.Within, e.Option} {
		if name != "" {
			b.WriteString(name)
			b.WriteString(": ")
		}
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }
