// Package failure wraps a Store and defines what happens when that store does not answer in time: the failure mode of the
// limits decides instead, and the caller can see that it did. The layer gives every request a deadline and does not call a
// store that is out, so that an outage delays only the requests in flight when it begins.
//
// A limit has its mode from store.In, or from Options.Mode; among the limits of a request the strictest mode decides. In
// increasing strictness:
//
//   - FailOpen admits while the store is out, and grants the full cost, but no more than the limit can ever admit. What
//     remains is unknown, so Remaining and ResetAfter are 0. Nothing is counted.
//   - FailLocal decides by Options.Local, with the same limits, counted in this process. It begins without the store's counts
//     and does not pass on its own, so a key can use its quota once more in each process in each window; Options.Instances
//     divides it. Slots of in-flight limits are counted here while they last, and not in the store.
//   - FailClosed refuses. RetryAfter is the time until the next probe.
//
// # Out, late and refused
//
// The store, or one of its nodes if it implements store.Nodes, is out if it reports so with store.ErrDown, or if a call is late
// and nothing was answered since it began. A probe is a charge of one unit to a key of this process, because a store that is
// read-only or full answers everything else. It is sent at most once per Options.ProbeEvery while the node is out; and
// when the node has answered nothing since a call began that has failed with another error, once per Options.ProbeEvery, or
// that has waited for half of its time. So a dead store is found after one Timeout, and called again at
// the latest one ProbeEvery after it is back. Clients that leave, or that make the store slow for their own keys, cause no
// outage. Time in which this process did not run does not count.
//
// A request that is late while the store is not out is decided without the store too, but FailOpen does not admit it: Local
// decides, so that no one is admitted for being busy. A key that was late three times in a row is not asked for for a second,
// from a table of 4,096 such keys, and at most Options.MaxWaiting calls wait at a time.
//
// A request that the store has refused stays refused, in every mode, while the store is out or the request is late, until the
// RetryAfter of that refusal, counted from before the store was asked; so does any larger cost, and a grant of up to a cost stays
// below it. A smaller cost is decided by the mode. The answer has the flags rule.Cached and rule.FallbackLocal in every mode,
// and the rest of the time as its RetryAfter; what it says of other limits of the request is Local's. For each key and limit the
// layer remembers the refusal of the smallest cost and the one that lasts longest; an admission that left no units counts as a
// refusal of 1 until its NextAfter. There are 131,072 places in sets of 16: of 65,536 keys at most about one in a thousand is
// lost, and beyond that those that end first. An admission never displaces a refusal. A reset of the key through the layer ends
// it, and so does a refund or settlement that returned units, also for a refusal that was in flight meanwhile. Another limit of
// the same key is a different one. Slots and leased limits are not remembered, nor refusals while reservations hold units, which may
// end at any time.
//
// # What it promises
//
//   - A request is answered within Options.Timeout, as long as the store returns when its context is done, as the contract of
//     Store requires.
//   - Every answer that the store did not decide is marked: it has one of the flags rule.FallbackOpen, rule.FallbackClosed
//     and rule.FallbackLocal, Stats counts it, and Options.OnFallback receives the reason.
//   - Units, slots and holds are returned, settled and renewed only where they were taken. The At of an answer that did not
//     come from the store is marked; see rule.Micros.Mark. What this layer took goes to Local, even when the store is back,
//     and never to the store. For what the layer of another process took, the error wraps ErrElsewhere, and nothing changes:
//     that process settles it, or it expires there. (Two processes have the same mark by chance once in 1,023.) What
//     FailOpen admitted during an outage is counted nowhere, so any process settles it, without effect. What the store took is
//     settled by the store alone: during an outage that is an error, and settling again later is safe. A Refund, which has no
//     At, and a charge beyond the quota go where takes go; in FailClosed they are errors during an outage. A reset is done in
//     the store and in Local; the error is the store's if only Local was reset.
//   - A call that counts once is known where it was made: one that is sent again after the store has come back, or gone, is a
//     new call. CancelCall goes to the store.
//   - Mistakes of the caller are not failures: errors that wrap slidegate.ErrLimit, ErrCost, ErrConflict or ErrUnsupported,
//     and all errors after the caller's own context has ended, are returned unchanged.
//
// What it does not promise: a request that the store did not answer in time may have been charged there, in addition to what
// the mode did.
//
// A store without round trips answers from memory: it is called without a deadline, a breaker and probes, since there is
// nothing to save. The mode still decides where it returns an error.
package failure
