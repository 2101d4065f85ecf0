// Package clientip says who the client of a request is, by address: a Source looks behind the proxies that it is told to
// trust, and believes nobody else. An IPv6 client has a whole network of addresses to choose from, so a limit by single
// addresses would not hold it; Grouping makes one key of all the addresses that a client can be expected to have. Parse
// reads an address the way that logs and headers write it.
package clientip
