// Package httpsfv checks how httplimit writes and reads structured fields (RFC 9651) against a library for them. It stands
// apart so that httplimit and its own tests need no such library.
package httpsfv
