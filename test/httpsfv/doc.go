// Package httpsfv checks how httplimit writes and reads structured fields (RFC 9651) against a library for them. It is a
// separate package, so that httplimit and its own tests do not need the library.
package httpsfv
