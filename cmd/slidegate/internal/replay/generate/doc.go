// Package generate makes synthetic traffic, for people who have no access log at hand and for tests. It knows a few
// shapes of traffic, from steady users to a botnet, and makes as many requests of one as are asked for, in order of time,
// without ever holding them in memory. The same options give the same requests on every platform, byte for byte.
//
// # How it is made
//
// A shape is one to four populations: users, a scraper, a botnet, keys that burst at the edges of windows. Each has an
// exact number of requests, a curve that says how its rate changes over time, and a rule that picks the key of a request.
// Each draws from random numbers of its own, and Traffic merges them by time.
//
// Arrivals as they come from many independent clients are a Poisson process, and given their number that is the same as
// so many independent uniform moments, sorted. To sort them without storing them, an interval is cut in half: of its n
// moments, as many fall into the left half as n tossed coins show heads, which is the number of ones in n random bits.
// The left half is then done in the same way, and the right one after it. An interval of few moments has them drawn and
// sorted on the spot. What waits is one right half a level, so the memory is constant. It costs one random number a
// request and a few bits a level, and it is exact: integers alone, and neither rounding nor a last request that comes too
// late.
//
// Those moments are spread evenly. The curve stretches them over time: it is a row of pieces, each with a weight, and a
// moment at a share of the total weight is moved to where that share is reached.
package generate
