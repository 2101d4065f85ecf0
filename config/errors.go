package config

import "strings"

// OptionError reports an invalid option, or an invalid field of a file. A program can use it to name the flag or the field that
// sets the option, whatever the text says. Its own text names the package, the option, the cause and the fix, for logs. It does
// not change after it is returned, and is safe for concurrent use.
type OptionError struct {
	// Package is the package that the option belongs to.
	Package string
	// Within is what the option is a part of, such as a policy or a file; empty for an option of the package.
	Within string
	// Option is the name of the option, or the path to one of its fields: TLS.Cert. It is empty if all of Within is meant.
	Option string
	// Err is the cause and the fix, without the names above.
	Err error
}

// Error returns the names and the cause.
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
