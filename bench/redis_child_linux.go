package main

import "syscall"

// endsWithParent makes a child end when this program does, even if it is killed.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
