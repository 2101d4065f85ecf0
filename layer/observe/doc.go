// Package observe is a layer over any Store that counts its answers, for OpenTelemetry. It changes no answer. It needs only the metric API of OpenTelemetry; the program chooses the SDK
// and exporter that read the counts.
//
//	store, err := observe.New(inner, observe.Options{})
//	// ...
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//
// # Metrics
//
//	name                             unit          attributes                             what
//	slidegate.decisions              {decision}    policy, limit, outcome, source, store  counter of requests decided
//	slidegate.units.granted          {unit}        policy, limit, store                   counter of units charged
//	slidegate.units.given_back       {unit}        policy, limit, store                   counter of units returned
//	slidegate.slots.renewed          {slot}        policy, limit, store                   counter of slots renewed
//	slidegate.slots.lost             {slot}        policy, limit, store                   counter of renewals of slots that were no longer held
//	slidegate.settlements.repeated   {settlement}  policy, limit, store                   counter of answers with the flag
//	slidegate.settlements.unsettled  {settlement}  policy, limit, store                   counter of answers with the flag
//	slidegate.holds.renewed          {hold}        policy, limit, store                   counter of holds renewed
//	slidegate.holds.lost             {hold}        policy, limit, store                   counter of renewals of holds that had ended
//	slidegate.calls.repeated         {call}        policy, limit, store                   counter of answers with the flag
//	slidegate.calls.not_once         {call}        policy, limit, store                   counter of answers with the flag
//	slidegate.inherited              {answer}      policy, limit, store                   counter of answers with the flag
//	slidegate.clock_moved            {answer}      policy, limit, store                   counter of answers with the flag
//	slidegate.errors                 {request}     error.type, store                      counter of requests that failed
//	slidegate.decision.duration      s             store, error.type if there is one      histogram of calls to the store
//
// policy is the result of Options.Policy, by default the namespace of the limit; it is absent if that is empty. limit
// is the limit's name, or its text if it has none. outcome is admitted, refused or error. source is store, cached,
// leased, fallback_open, fallback_closed or fallback_local, by the answer's flags; the source of
// an error is store. store is Options.Name. error.type is timeout, canceled, store for an error that wraps
// store.ErrUnsupported (the store lacks something that the request needs), or other, such as a lost connection.
//
// A series begins with its first event, unless its limit was passed to Announce.
//
// A decision is a request for units: rule.Take and rule.TakeUpTo, whether by Allow, Wait, Reserve or Acquire. It counts
// once, whatever the number of its limits, under the limit in Decision.LimitName; an error, which no limit decided,
// counts under the first of them. So the sum over all limits is the number of decisions. Units and flags count for each
// limit separately. Peeks count only in slidegate.errors and slidegate.decision.duration. What failure mode open admits
// without charging anything, with the source fallback_open, is a decision but not a unit; under fallback_local units
// are charged in the process. A batch that a store decides in one call has one duration.
//
// A slot of an in-flight limit is a unit: granted when it is taken, given back when it is released, and neither when
// its time to live ends. Units that a reservation holds are granted when they are held, and given back as far as they
// were not used. A settlement, and a call with an ID, counts the units that it gave back or charged, once; repeated, it
// counts as repeated.
//
// # Promises
//
// No key and no group is ever in an attribute. Whatever the number of limits, at most Options.MaxLimits of them, those
// that were announced and one more, "other", are distinguished. Counts are exact under concurrency. Counting allocates
// nothing and takes some 30 ns: the counts are kept here, one for each processor and limit, and passed on when the SDK
// collects. Passing on each one, as the synchronous counters of OpenTelemetry do, takes 200 ns each, three times as
// long as a decision in memory.
//
// # What it does not promise
//
// The counts of one collection are not a snapshot: decisions continue while they are read. They are the counts of this
// process since New; after Close they are no longer reported. Two Stores with the same Name on one MeterProvider add up
// in the SDK for Go, which OpenTelemetry does not require of others: give them different names. Durations of stores in
// the same process are sampled; see Options.DurationEvery.
//
// The position of the layer determines what it sees: outside caches and the failure layer, what callers get; inside
// them, what the store itself does. It may be used in both positions, with two names.
package observe
