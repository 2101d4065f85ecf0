// Package failure is a Store over a Store that says what happens when the store below cannot answer in time: a policy
// answers instead, and the caller can see that it did. It gives every request a deadline, and it stops asking a store that
// is dead, so that an outage costs the requests that are on their way when it begins, one more each probe interval, and
// nobody else.
//
// There are four policies. Open admits, Closed refuses, Local asks a second store in this process, and Optimistic admits a few units of
// each key and charges them when the store answers again.
//
// What it promises:
//
//   - A request is answered within Options.Timeout, as long as the store returns when its context is done, which the contract
//     of Store asks for. Options.MaxDetached is for stores that do not. A time in which this process did not run does not
//     count, and what fails in it is not held against the store: a stopped or starved process is not an outage.
//   - After Options.Failures failures in a row the store is not asked, but for one request each Options.ProbeEvery. The
//     first probe that is answered ends the outage: at the latest one interval after the store is back, if there is
//     traffic. There is no probe without a request, and no goroutine that outlives the calls, unless Optimistic owes
//     the store something.
//   - Whatever was not decided by the store says so: the answer has one of the flags rule.FallbackOpen,
//     rule.FallbackClosed, rule.FallbackLocal and rule.FallbackOptimistic, Stats counts it, and Options.OnFallback is told why.
//   - Nothing is given back to a store that did not take it; see Local.
//   - Mistakes of the caller are no failures: errors that wrap slidegate.ErrLimit, ErrCost, ErrConflict or ErrUnsupported, and
//     whatever comes back after the caller's own context has ended, are returned as they are.
//
// What it does not promise: a request whose store did not answer in time may have been charged there, besides what the
// policy did. With Local, the fallback begins an outage without the store's counts and keeps its own to itself
// afterwards, so a key can use its quota once more in each process. With Optimistic it can use k units more in each
// process, whatever happens. There is one breaker for the whole store: where one
// node of several is dead, all share the outage, unless each node has a layer of its own.
//
// A store without round trips answers from memory: it is asked without a deadline and without a breaker, since there is
// nothing to save. Its errors are still answered by the policy.
package failure
