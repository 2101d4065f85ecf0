//go:build !linux

package systemd

// Reloading says that a reload begins now; Ready says that it is over.
func Reloading() string { return "RELOADING=1" }
