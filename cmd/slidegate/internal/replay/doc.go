// Package replay runs recorded traffic through limits under virtual time, and reports what they would have done: which
// keys they would have refused, for how long, how close the traffic came to the quota, and what another quota or
// algorithm would have changed. It decides with the same rule as every store, in one pass over the traffic, and its
// memory grows with the number of keys, not of requests.
//
// Related packages: traffic reads logs, report prints and draws the findings.
package replay
