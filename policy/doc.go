// Package policy decides requests by policies: named sets of limits with overrides for some keys, allow and deny lists,
// a shadow mode, candidate limits and a failure mode. It is the engine under httplimit, grpclimit and the service,
// which add only what their protocol needs: which policies apply to a request, and its key and cost under each.
//
// Most programs use one of those packages and need this one only for a Plan, an Override or a List. An adapter for
// another protocol compiles its policies once with New and then calls Decide for a request under one policy, or
// collects a Request for one under several.
package policy
