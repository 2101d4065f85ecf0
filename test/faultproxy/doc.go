// Package faultproxy puts a wire between a test and a real server that can be slowed, cut, muted and reset. It forwards
// plain TCP, so it suits any server that listens on a port. The near end is on a free port of the loopback interface
// and ends with the test.
package faultproxy
