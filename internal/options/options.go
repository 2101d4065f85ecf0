// Package options has the error for an invalid option, or an invalid field of a file, which the program turns into the name of a
// flag, or into a line and column. Packages that take options return it, so that a user reads the name that they wrote.
package options

import (
	"fmt"
	"strings"
)

// Error reports an invalid option, or an invalid field of a file. A program can use it to name the flag or the field that sets the
// option, whatever the text says. Its own text names the package, the option, the cause and the fix, for logs. It does not change
// after it is returned, and is safe for concurrent use.
type Error struct {
	// Package is the package that the option belongs to.
	Package string
	// Within is what the option is a part of, such as a policy or a file; empty for an option of the package.
	Within string
	// Option is the name of the option, or the path to one of its fields: TLS.Cert. It is empty if all of Within is meant.
	Option string
	// Err is the cause and the fix, without the names above.
	Err error
}

// Invalid returns an error about an option of a package, formatted by fmt.Errorf.
func Invalid(pkg, option, format string, args ...any) *Error {
	return &Error{Package: pkg, Option: option, Err: fmt.Errorf(format, args...)}
}

// Error returns the names and the cause.
func (e *Error) Error() string {
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
func (e *Error) Unwrap() error { return e.Err }
