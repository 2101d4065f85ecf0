// Package traffic reads recorded traffic: access logs in several formats, plain or compressed, one Line per request. A
// Reader detects the compression and the format of a file, builds the key and the cost of each request, and counts
// unreadable lines instead of failing. Merge merges the logs of several servers by time.
package traffic
