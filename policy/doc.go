// Package policy has the words in which policies are written and their decisions are read, for the middlewares httplimit
// and grpclimit: overrides, lists and plans of a policy, and the decision that a request gets.
package policy
