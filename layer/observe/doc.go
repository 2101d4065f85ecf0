// Package observe is a layer over any Store that counts what it answers, for OpenTelemetry, and tells a function of yours
// about every request. It changes no answer. It needs the metric API of OpenTelemetry alone; which SDK and exporter read the
// figures is the program's choice.
//
//	store, err := observe.New(inner, observe.Options{})
//	// ...
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//
// # Metrics
//
//	name                             unit          attributes                             what
//	slidegate.decisions              {decision}    policy, limit, verdict, source, store  counter of requests decided
//	slidegate.units.granted          {unit}        policy, limit, store                   counter of units charged
//	slidegate.units.given_back       {unit}        policy, limit, store                   counter of units given back
//	slidegate.slots.renewed          {slot}        policy, limit, store                   counter of slots renewed
//	slidegate.slots.lost             {slot}        policy, limit, store                   counter of renewals of slots that were no longer held
//	slidegate.settlements.repeated   {settlement}  policy, limit, store                   counter of answers with the flag
//	slidegate.settlements.unsettled  {settlement}  policy, limit, store                   counter of answers with the flag
//	slidegate.inherited              {answer}      policy, limit, store                   counter of answers with the flag
//	slidegate.clock_moved            {answer}      policy, limit, store                   counter of answers with the flag
//	slidegate.errors                 {request}     error.type, store                      counter of requests without an answer
//	slidegate.decision.duration      s             store, error.type if there is one      histogram of calls of the store
//
// policy is what Options.Policy says, which is the namespace of the limit; it is missing if that is empty. limit is the limit's name, or
// its text if it has none. verdict is allowed, refused or error.
// source is store, cached, leased, fallback_open, fallback_closed, fallback_local or fallback_optimistic, by the answer's
// flags; an error is the store's. store is Options.Name. error.type is timeout, canceled, store for an error that wraps
// store.ErrUnsupported (the store lacks something that the request needs), or other, such as a lost connection.
//
// A series begins with its first event, unless Announce has named its limit.
//
// A decision is a request that asks for units: OpTake and OpTakeUpTo, be it by Allow, Wait, Reserve or Acquire. It counts
// once, however many limits it faces, under the one that Decision.LimitName names; an error, which no limit decided, counts
// under the first of them. So the sum over all limits is the number of decisions. Units and flags count for each limit by
// itself. Peeks count nowhere but in slidegate.errors and slidegate.decision.duration. What a failure policy admits without
// charging anything, with the source fallback_open, is a decision and no unit; under fallback_local units are charged in the
// process, and under fallback_optimistic they are charged in the store later. A batch that a store decides in one call has one duration.
//
// A slot of an in-flight limit is a unit: granted when it is taken, given back when it is released, and neither when its time
// to live ends. A settlement counts the units that it gave back or charged, once; sent again, it counts as repeated.
//
// # Promises
//
// No key and no group is ever in an attribute. However many limits there are, at most Options.MaxLimits of them, those
// that were announced and one more, "other", are told apart. Counts are exact, whatever runs at the same time. Counting allocates nothing and takes
// some 30 ns: the counts are kept here, one for each processor and limit, and handed over when the SDK collects. Handing over
// each one, as the synchronous counters of OpenTelemetry do, takes 200 ns apiece, three times as long as a decision in
// memory.
//
// # What it does not promise
//
// The figures of one collection are not of one moment: decisions go on while they are read. They are those of this process
// since New; after Close they are no longer reported. Two Stores with the same Name on one MeterProvider add up in the SDK
// for Go, which OpenTelemetry does not demand of others: give them different names. Durations of stores in the same process
// are those of a sample; see Options.DurationEvery.
//
// Where the layer stands decides what it sees: outside of caches and failure policies, what callers are told; inside of them,
// what the store itself does. It may stand in both places, with two names.
package observe
