//go:build !linux

package systemd

// Reloading reports that a reload begins now; Ready reports its end.
func Reloading() string { return "RELOADING=1" }
