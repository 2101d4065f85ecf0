// Package generate makes synthetic traffic, for users without an access log and for tests. It offers several shapes of
// traffic, from steady users to a botnet, and makes any number of requests in order of time, without holding them in
// memory. The same options give the same requests on every platform, byte for byte.
//
// # Implementation
//
// A shape consists of one to four populations: users, a scraper, a botnet, keys that burst at the edges of windows. Each
// has an exact number of requests, a curve that describes how its rate changes over time, and a rule that picks the key
// of a request. Each uses separate random numbers, and Traffic merges them by time.
//
// The arrivals of many independent clients are a Poisson process, which, given their number n, is the same as n
// independent uniform arrival times, sorted. To sort them without storing them, an interval is halved: the number of its
// n arrivals that fall into the left half is the number of heads in n coin tosses, which is the number of ones in n
// random bits. The left half is then processed in the same way, and the right half after it. The arrivals of an interval
// that has only a few are drawn and sorted directly. At most one right half per level is pending, so the memory is
// constant. This costs one random number per request and a few bits per level, and it is exact: it uses only integers,
// without rounding, and no request falls outside of the span.
//
// These arrival times are uniform. The curve maps them to the span: it is a sequence of pieces, each with a weight. An
// arrival time is a share of the total weight, and is mapped to the time at which that share is reached.
package generate
