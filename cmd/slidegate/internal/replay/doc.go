// Package replay runs recorded traffic through limits under virtual time, and finds out what they would have done to it:
// whom they would have refused, for how long, how close to the quota the traffic came, and what another quota or another
// algorithm would have changed. It decides with the same rule as every store, in one pass over the traffic, and keeps
// memory by the number of keys, not of requests.
//
// Its neighbours: traffic reads logs, generate makes traffic up, report prints and draws the findings.
package replay
