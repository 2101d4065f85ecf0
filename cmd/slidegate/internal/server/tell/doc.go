// Package tell writes what a verdict of the gate says into the header of an HTTP answer: RateLimit and RateLimit-Policy as
// draft-ietf-httpapi-ratelimit-headers-11 has them, with an item for each limit, and Retry-After, which is the exact wait
// rounded up to whole seconds. All doors of the service that speak HTTP use it, so that they tell the same.
package tell
