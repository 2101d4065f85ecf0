// Package engine decides requests by policies: named sets of limits with overrides for some keys, allow and block lists,
// a shadow mode, a penalty and a failure mode. It is under httplimit, grpclimit and the service, which add
// only what their protocol needs: which policies apply to a request, and its key and cost under each.
//
// An adapter compiles its policies once with New and then calls Decide for a request under one policy, or begins a
// Transaction for one under several.
package engine
