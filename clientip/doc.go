// Package clientip finds the address of a request's client. A Source looks behind the proxies that it is configured to
// trust, and believes no other peer. An IPv6 client has a whole network of addresses to choose from, so a limit on single
// addresses would not stop it; Grouping turns all the addresses that one client can be expected to have into one key. Parse
// reads an address as it is written in logs and headers.
package clientip
