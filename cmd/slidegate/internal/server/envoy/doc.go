// Package envoy is a rate limit service for Envoy: the service v3 over gRPC, and rules read from the YAML of
// envoyproxy/ratelimit as it is. A file without our additions gives the same codes as the original gives; with them, a rule
// counts by any algorithm of Slidegate, and a request can be charged all or nothing. Where the counts live is a
// store.Store, which is asked once per request, whatever the number of descriptors.
//
// What "the same codes" takes: the original adds the hits to a counter first and then compares, so refused hits count, and so
// do hits that exceed the limit by themselves. A rule here therefore counts refusals, and hits above the limit, which our
// decision rule would refuse without a charge, are charged regardless and answered OVER_LIMIT: whatever was counted before,
// the sum is over. A limit of 0, which no slidegate.Limit can have, is counted the same way. See
// docs/decisions/0010-envoy-charging.md.
package envoy
