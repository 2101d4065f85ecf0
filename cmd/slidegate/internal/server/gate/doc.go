// Package gate is the running policies of the service: it finds the limits that a request faces by its policy, the
// overrides and the allow and deny lists, has a store decide, and reports what policies that only watch would have done.
// All doors of the service (JSON, forward-auth, proxy, RESP) ask the same Gate, so that they give the same answers. A
// Gate takes a new file of policies while it works, all or nothing, and keeps the counts.
package gate
