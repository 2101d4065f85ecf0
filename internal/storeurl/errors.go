package storeurl

import "fmt"

// Error reports an invalid URL of a store. Its text says what is wrong and what to do, and contains no part of the URL that may be a
// password. The errors of other packages that parse URLs quote what they could not parse, and an invalid URL may contain a password in
// any part. It is safe for concurrent use.
type Error struct{ err error }

// Errorf returns an Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// Error returns the text.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the errors that Errorf wrapped.
func (e *Error) Unwrap() error { return e.err }
