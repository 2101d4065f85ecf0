//go:build !linux

package main

import "syscall"

// endsWithParent does nothing: on this system, a killed run leaves its children behind.
func endsWithParent() *syscall.SysProcAttr { return nil }
