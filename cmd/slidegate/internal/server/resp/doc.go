// Package resp answers limits in Redis' protocol, so that the Redis client that a program already has, in any language, is
// a client of the service: CL.THROTTLE as the module redis-cell has it, and commands of its own (SG.ALLOW and others) for
// the policies of a gate. What a client can make the server hold is bounded: the size of a command, the answers that it
// does not read, the time that it takes over either, the number of connections. The commands that one read brings are
// decided in their order and answered with one write.
//
// The server is written by hand; docs/decisions/0011-resp-server.md says why.
package resp
