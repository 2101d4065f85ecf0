// Package faultproxy puts a proxy between a test and a real server that can slow, cut, mute and reset connections. It forwards
// plain TCP, so it suits any server that listens on a port. The near end is on a free port of the loopback interface
// and ends with the test.
package faultproxy
