// Package store defines what a Slidegate store implements: the Store interface, the requests it decides and the limits it
// decides them by. Users of limiters do not need it; authors of a store, of a layer over one, or of an adapter that batches
// its own requests do. The decision rule itself is package rule, and package storetest checks a Store against it in one
// line.
package store

import (
	"context"
	"errors"

	"github.com/slidegate/slidegate/rule"
)

// ErrUnsupported is wrapped by errors that report something that the store, or the operation, does not support for this
// request or this limit.
var ErrUnsupported = errors.New("not supported")

// Store keeps state and makes decisions atomically. Limiters, layers and servers all use this interface; run storetest.Run
// against an implementation. A Store is safe for concurrent use.
//
// The decision rule is package rule, the same for every store. A store that can run Go next to its data loads the states of
// a request, calls rule.Decide and stores what changed. A store that decides elsewhere (a script, a function in the
// database) ports the rule's roll, room and charge, returns the integers of the new state with the time, and derives the
// answers from them with rule.Limit.Answer. Either way the answers must equal those of package rule to the last microsecond
// and unit.
//
// Every store must follow these rules:
//
//   - State belongs to an address: Charge.Limit's Prefix (namespace, name, shape), Request.Group and Charge.Key. Keys are
//     any bytes of any length, and different addresses must not collide because of how they are encoded.
//   - Each request is atomic: no other request is decided between its charges. Requests of a batch that share an address
//     are decided in order; across addresses the order is free.
//   - One clock decides: a store with a server uses the server's clock, read once per request, inside the critical
//     section. Time never goes backwards for a key, as package rule defines it.
//   - A refusal writes nothing, unless the limit counts refusals or the state was left ahead by a clock that jumped
//     (rule.ClockMoved). A peek writes nothing.
//   - A rule.Settle, and a rule.Take with Once, are carried out once for each ID and address of the first charge, as
//     rule.DecideOnce describes. The store remembers them for at least as long as Request.Memory says after
//     rule.SettledAt, up to the number that it says, and for rule.LongMemory while there is space. It does so in the same
//     atomic step in which it changes the states, and finds them by the address and the ID alone. A Reset does not forget them.
//   - A state contains the version of its format. A store reads states written by older versions, and returns an error for
//     a state written by a newer one.
//   - A store may forget a state once the time that rule.Limit.Expires returns has come, never before; if the clock then
//     steps back, it does not matter whether the state is still there. If a store must forget a live state to stay within
//     its bounds, it remembers at least what the key had used, and the key starts with that when it comes back; its answers
//     then have the flag rule.Inherited. A store may occasionally mistake another key for one that was forgotten. It errs
//     only toward refusal.
//   - An error wraps what it says about the store and the request: ErrDown, ErrBusy, ErrUndone, ErrRefused. An error about one
//     key, such as a state of a newer version, and the error of a context wrap neither ErrDown nor ErrBusy.
//   - A caller that leaves while a connection is made does not fail others that wait for the same connection.
//   - A store whose keys live on several nodes rejects a request over several nodes with an error that wraps
//     ErrUnsupported, unless its group puts the keys on one node.
//
// A store may also implement the optional interfaces of this package. A layer implements Wrapper, and As finds an
// optional interface under any number of layers.
type Store interface {
	// Apply decides a batch of requests. For each request it either fills Answers and sets Err to nil, or sets Err. It
	// returns the first of these errors, so a caller with one request need only check the returned error.
	//
	// An error means that the outcome is unknown: the request may or may not have been charged, and may still be charged
	// later, unless the error wraps ErrUndone. It is never a refusal. Apply keeps no reference to the batch or anything in it after it returns.
	//
	// If ctx has ended before Apply is called, nothing is charged and every request gets ctx's error, even in a store that
	// would not have to wait: the caller is no longer there to use what is granted. (A layer may still return a refusal that
	// it has cached.) If ctx ends during Apply, Apply returns soon, and requests without an answer get ctx's error.
	// Requests that must be carried out even if the caller has gone, because they return units or charge used ones, come with
	// a context that has not ended.
	Apply(ctx context.Context, batch []Request) error

	// Check returns an error that wraps ErrUnsupported if the store cannot keep this limit exactly, and nil otherwise. It
	// does no I/O.
	Check(limit *Limit) error

	// Traits reports what the store can do. It does no I/O.
	Traits() Traits
}

// Connection is a Store that connects in the background: the store of a URL, as the Open functions of the packages of stores
// return it. Until it is connected, every request fails with an error that names the cause and wraps ErrDown and ErrUndone.
// From then on, it reconnects whenever necessary.
type Connection interface {
	Store
	// Err returns nil if the store was connected, even if it is down now, and otherwise why it could not be connected yet.
	Err() error
	// Close ends an attempt to connect, or closes the connections. Requests fail afterwards. Later calls do nothing. The error
	// is always nil.
	Close() error
}

// SingleTaker is an optional interface for Stores that can decide the most common request directly, without a batch:
// rule.Take with a single charge and no group. It decides as Apply would, also when ctx has ended; if it allows the
// request, it grants the whole cost. A Limiter uses it if it is implemented. The results are plain numbers because those
// stay in registers: a rule.Answer would be copied through memory at every step, which takes longer than the rest of a
// decision in memory. For the same reason, after combines two fields of an Answer: it is NextAfter if the request was
// allowed, and RetryAfter otherwise.
type SingleTaker interface {
	TakeSingle(ctx context.Context, limit *Limit, key string, cost int64) (
		allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error)
}

// Preparer is an optional interface for Stores that have bounded space for different kinds of limits. Programs that know
// their limits in advance, for example from a configuration file, call it so that limits that arrive with requests cannot
// take that space. A layer with a second store, such as a fallback, calls both.
type Preparer interface {
	// Prepare makes space for limits, which they keep until release is called. It does no I/O.
	Prepare(limits []*Limit) (release func())
}

// Wrapper is implemented by layers: Stores that wrap another Store.
type Wrapper interface {
	// Unwrap returns the Store below.
	Unwrap() Store
}

// As returns the first Store that implements T, starting at s and going down through the layers, and whether there is one.
// It is for optional interfaces that a layer need not take part in; calls that a layer must see, such as decisions, go
// through the layer.
func As[T any](s Store) (found T, ok bool) {
	for s != nil {
		if found, ok = s.(T); ok {
			return found, true
		}
		wrapper, wraps := s.(Wrapper)
		if !wraps {
			break
		}
		s = wrapper.Unwrap()
	}
	return found, false
}

// Request is one operation over one or more charges, all or nothing.
type Request struct {
	Op rule.Op
	// Group is part of the address of every charge. Stores made of several nodes keep a group on one node, so that several
	// charges can be decided in one round trip. It may be empty.
	Group string
	// ID identifies the reservation that the request makes, settles or renews: the slots of in-flight limits belong to it,
	// and stores remember by it that it was settled. It is 0 if there is none.
	ID rule.ID
	// Hold means that a rule.Take holds its units under the ID, on the limits that have Hold; others are charged.
	Hold bool
	// Once means, for a rule.Take, that it is a call that counts once under its ID. For a rule.Settle it means that the charges
	// are those of the call with that ID, whatever their Cost and At say, and if there was none, that it will charge nothing.
	Once bool
	// Charges has at least one and at most Traits.MaxCharges elements. No two of them have the same address: a Limiter adds
	// up the costs of those that do. If Traits.OneKey is set and Group is empty, all of them have the same key.
	Charges []Charge
	// Answers has one element for each charge. The caller owns it, the store fills it.
	Answers []rule.Answer
	// Err is set by the store: nil if Answers is filled.
	Err error
}

// Memory returns how long the ID of a request has to be remembered, and how many IDs the address remembers for that time. It returns 0
// if the ID need not be remembered: if nothing happens once, or if it only releases slots, which repeating does not change.
func (r *Request) Memory() (memory rule.Micros, most int64) {
	if r.Op != rule.Settle && !(r.Op == rule.Take && r.Once) {
		return 0, 0
	}
	lasting := r.Once
	for i := range r.Charges {
		l := r.Charges[i].Limit.Rule()
		memory, most = max(memory, l.Memory()), max(most, l.Settlements())
		lasting = lasting || l.Algorithm != rule.InFlight
	}
	if !lasting {
		return 0, 0
	}
	return memory, most
}

// Charge is one limit of a request, with its key and cost.
type Charge struct {
	Limit *Limit
	Key   string
	Cost  int64 // 0 to rule.MaxQuota
	// At is the At of the answer that charged the units, for rule.GiveBack and rule.Settle. A GiveBack at rule.Oldest takes
	// the oldest ones.
	At   rule.Micros
	Used int64 // rule.Settle only: how many units were used, instead of Cost
}

// Traits describes what a Store can do.
type Traits struct {
	// Name is the store's name in metrics and logs, such as "memory" or "redis".
	Name string
	// ServerClock reports whether one clock decides for all processes that share the store.
	ServerClock bool
	// MaxCharges is how many charges one request may have; 1 if the store is not atomic over several keys.
	MaxCharges int
	// OneKey means that the charges of a request without a group must all have the same key. Other requests fail with an
	// error that wraps ErrUnsupported.
	OneKey bool
	// RoundTrips is how many round trips a request takes; 0 for a store in the same process.
	RoundTrips int
	// Calls is how many calls in flight at a time serve the store best, for the layer that combines requests. 0 means the
	// default of that layer; negative means that the store combines requests itself, and the layer is not needed.
	Calls int
	// CostlyCancel means that a call whose context ends costs the store a connection. The layer that combines requests then
	// makes no call with a caller's context.
	CostlyCancel bool
}
