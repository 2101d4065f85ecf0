// Package failure wraps a Store and defines what happens when that store does not answer in time: a policy decides
// instead, and the caller can see that it did. The layer gives every request a deadline and stops calling a store that
// is down, so that an outage delays only the requests in flight when it begins, and one more per probe interval.
//
// There are four policies. Open admits, Closed denies, Local decides by a second store in this process, and Optimistic
// admits a few units of each key and charges them when the store answers again.
//
// What it promises:
//
//   - A request is answered within Options.Timeout, as long as the store returns when its context is done, as the
//     contract of Store requires. Options.MaxDetached is for stores that do not. Time in which this process did not run
//     does not count, and calls that fail in it do not count against the store: a stopped or starved process is not an
//     outage.
//   - After Options.Failures consecutive failures the store is no longer called, except for one request per
//     Options.ProbeEvery. The first probe that is answered ends the outage: at the latest one interval after the store
//     is back, if there is traffic. There is no probe without a request, and no goroutine that outlives the calls,
//     unless Optimistic owes units to the store.
//   - Every answer that the store did not decide is marked: it has one of the flags rule.FallbackOpen,
//     rule.FallbackClosed, rule.FallbackLocal and rule.FallbackOptimistic, Stats counts it, and Options.OnFallback
//     receives the reason.
//   - Units are never returned to a store that did not charge them; see Local.
//   - Mistakes of the caller are not failures: errors that wrap slidegate.ErrLimit, ErrCost, ErrConflict or
//     ErrUnsupported, and all errors after the caller's own context has ended, are returned unchanged.
//
// What it does not promise: a request that the store did not answer in time may have been charged there, in addition to
// what the policy did. With Local, the fallback begins an outage without the store's counts and does not pass on its
// own counts afterwards, so a key can use its quota once more in each process. With Optimistic a key can use k units
// more in each process, whatever happens. There is one breaker for the whole store: where one node of several is down,
// all share the outage, unless each node has its own layer.
//
// A store without round trips answers from memory: it is called without a deadline and without a breaker, since there
// is nothing to save. The policy still decides where it returns an error.
package failure
