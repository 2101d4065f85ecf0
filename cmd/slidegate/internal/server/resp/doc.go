// Package resp serves limits over the Redis protocol, so that the Redis client that a program already has, in any
// language, is a client of the service. It has CL.THROTTLE, as in the module redis-cell, and its own commands (SG.ALLOW
// and others) for the policies of a gate. What a client can make the server hold is bounded: the size of a command, the
// replies that it does not read, the time that it takes for either, the number of connections. The commands that arrive
// in one read are decided in order and their replies sent in one write.
//
// The server is written by hand; docs/decisions/0011-resp-server.md says why.
package resp
