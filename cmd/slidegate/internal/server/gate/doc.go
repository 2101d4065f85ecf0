// Package gate runs the policies of the service: it finds the limits that apply to a request from its policy, the
// overrides and the allow and deny lists, has a store decide, and reports what policies in shadow mode would have done.
// All listeners of the service (JSON, forward-auth, proxy, RESP) use the same Gate, so they return the same decisions.
// A Gate can load new policies while it runs, all or nothing, and keeps the counts.
package gate
