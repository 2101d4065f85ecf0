// Package traffic reads recorded traffic: access logs in several formats, plain or packed, one Line per request. A
// Reader finds out by itself how a file is packed and what format it has, makes the key and the cost of each request, and
// counts what it cannot read instead of giving up. Merge puts the logs of several servers together by time.
package traffic
