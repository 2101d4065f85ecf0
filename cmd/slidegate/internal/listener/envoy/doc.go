// Package envoy implements Envoy's rate limit service: version 3 over gRPC, with rules in the YAML format of
// envoyproxy/ratelimit (the original). A file without our additions gives the same codes as the original; with them, a
// rule can count by any algorithm of Slidegate, and a request can be charged all or nothing. The counts are in a
// store.Store, which is called once per request, whatever the number of descriptors.
//
// The original first adds the hits to a counter and then compares, so refused hits count, and so do hits that alone
// exceed the limit. To return the same codes, a rule here counts refusals. Hits above the limit, which our decision rule
// would refuse without a charge, are charged regardless, and the code is OVER_LIMIT: whatever was counted before, the sum
// is over. A limit of 0, which no slidegate.Limit can have, is counted in the same way. A rule that names an algorithm, or is
// under charging: all, does not count refusals unless it says so: with a sliding window, a client that keeps sending requests
// would never be admitted again. charging: all puts the counts of a domain into one group, because a store of several nodes
// has to keep them on one; so changing it resets them.
package envoy
