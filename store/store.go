// Package store is what a Slidegate store implements: the Store interface, the requests it decides and the limits it
// decides them by. People who use limiters do not need it; people who write a store, a layer over one or an adapter
// that batches its own requests do. The decision rule itself is package rule, and package storetest checks a Store
// against it in one line.
package store

import (
	"context"
	"errors"

	"github.com/slidegate/slidegate/rule"
)

// ErrUnsupported is wrapped by errors that report something that the store, or the operation, cannot do for this request or this
// limit.
var ErrUnsupported = errors.New("not supported")

// Store is where state lives and where a decision is made atomically. Limiters, layers and servers all talk to this
// interface; run storetest.Run against an implementation. A Store is safe for concurrent use.
//
// The decision rule is the package rule, the same for every store. A store that can run Go at its data loads the states
// of a request, calls rule.Decide and stores what changed. A store that decides elsewhere (a script, a function in the
// database) ports rule's roll, room and charge, returns the integers of the new state with the time, and derives the
// answers from them with rule.Limit.Answer. Either way the answers must agree with rule's to the last microsecond and
// unit.
//
// Every store keeps to this:
//
//   - State belongs to an address: Charge.Limit's Prefix (namespace, name, shape), Request.Group and Charge.Key. Keys are
//     any bytes of any length, and different addresses never share state by the way their names are built.
//   - Each request is atomic: no other request is decided between its charges. The requests of a batch are decided in
//     order where they share an address; across addresses the order is free.
//   - One clock decides: a store with a server uses the server's clock, read once per request, inside the critical
//     section. Time never goes backwards for a key, as rule defines it.
//   - A refusal writes nothing, unless the limit counts refusals or the state was left ahead by a clock that jumped
//     (rule.ClockMoved). A peek writes nothing.
//   - A rule.Settle is carried out once for each ID and address of the first charge: rule.DecideSettle says how. The store
//     remembers it for at least the longest rule.Limit.Memory of its charges, and up to Settlements of them, in the same atomic
//     step in which it changes the states. It need not where Memory is 0 for all charges. Reset forgets no settlement.
//   - A state carries the version of its format. A store reads what older versions wrote, and refuses with an error what a newer
//     one wrote.
//   - A store may forget a state once rule's Expires has come, never before; if the clock then steps back, it does not
//     matter whether the state is still there. When a store must forget a live state to stay within its bounds, it
//     remembers at least what the key had used, and the key begins with that when it comes back; its answers then carry
//     rule.Inherited. A store may take another key for one that was forgotten, now and then. It errs only towards refusing.
//   - A store whose keys live on several nodes refuses a request over several of them with an error that wraps
//     ErrUnsupported, unless its group puts them on one node.
//
// A store may also implement the optional interfaces of this package. A layer implements Wrapper, and As finds an
// optional interface under any number of layers.
type Store interface {
	// Apply decides a batch of requests. For each it fills Answers and sets Err to nil, or sets Err. It returns the first
	// of those errors, so a caller with one request need only look at what is returned.
	//
	// An error means that the answer is unknown: the request may or may not have been charged, and may still be charged
	// later. It is never a refusal. Apply keeps no reference to the batch or anything in it after it returns.
	//
	// If ctx has ended before Apply is called, nothing is charged and every request has ctx's error, also in a store that
	// would not have to wait: nobody is there to use what it grants. (A layer may still return a refusal that it knows.) If
	// ctx ends while Apply is at work, Apply returns soon, and what was not answered by then has ctx's error. What must be
	// carried out although the caller has gone comes with a context that has not ended: a Limiter gives units back, and
	// charges what has been used, with one from Detach.
	Apply(ctx context.Context, batch []Request) error

	// Check returns an error that wraps ErrUnsupported when the store cannot keep this limit exactly, else nil. It does no
	// I/O.
	Check(limit *Limit) error

	// Traits reports what the store can do. It does no I/O.
	Traits() Traits
}

// SingleTaker is an optional interface for Stores that can decide the most common request directly, without a batch:
// rule.Take with a single charge and no group. It answers as Apply would, also when ctx has ended; what is granted is the
// cost, if allowed. A Limiter uses it where it is implemented. The answer comes as plain numbers because those stay in
// registers: as a rule.Answer it would be copied through memory at every step, which takes longer than the rest of a
// decision in memory. For the same reason one number is two fields of an Answer: after is its NextAfter if the request was
// allowed, else its RetryAfter.
type SingleTaker interface {
	TakeSingle(ctx context.Context, limit *Limit, key string, cost int64) (
		allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error)
}

// Preparer is an optional interface for Stores that have bounded room for different kinds of limits. Those who know their
// limits beforehand, such as from a configuration, call it so that limits which requests bring cannot take that room. A
// layer with a store of its own, such as a fallback, passes it on to both.
type Preparer interface {
	// Prepare makes room for limits, which they keep until release is called. It does no I/O.
	Prepare(limits []*Limit) (release func())
}

// Leaser is implemented by the layer that takes units in blocks, of limits that say Lease.
type Leaser interface {
	// Leases does nothing: to have it is what counts.
	Leases()
}

// Wrapper is implemented by layers: Stores that answer through another Store.
type Wrapper interface {
	// Unwrap returns the Store below.
	Unwrap() Store
}

// As returns the first Store that implements T, beginning at s and going down through the layers, and whether there is
// one. It is for optional interfaces that a layer need not take part in; what a layer must see, such as a decision, goes
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
	// Group is part of the address of every charge. Stores made of several nodes keep a group on one node, so that
	// several charges are decided in one round trip. It may be empty.
	Group string
	// ID names the reservation that the request makes, settles or renews: the slots of in-flight limits belong to it, and
	// that it was settled is remembered by it. It is 0 if there is none.
	ID rule.ID
	// Charges are at least one and at most Traits.MaxCharges. No two of them have the same address: Limiter adds up the
	// costs of those that do. Where Traits.OneKey is set and Group is empty, all have the same key.
	Charges []Charge
	// Answers has one place for each charge. The caller owns it, the store fills it.
	Answers []rule.Answer
	// Err is set by the store: nil when Answers is filled.
	Err error
}

// Charge is one limit's part in a request.
type Charge struct {
	Limit *Limit
	Key   string
	Cost  int64 // 0 to rule.MaxQuota
	// At is the At of the answer that charged the units, for rule.GiveBack and rule.Settle. A GiveBack of rule.Oldest takes
	// the oldest ones.
	At   rule.Micros
	Used int64 // rule.Settle only: how many units of Cost were used, or how many instead
}

// Traits describe what a Store can do.
type Traits struct {
	// Name is what metrics and logs call the store, such as "memory" or "redis".
	Name string
	// ServerClock: one clock decides for all processes that share the store.
	ServerClock bool
	// MaxCharges is how many charges one request may have; 1 if the store is not atomic over several keys.
	MaxCharges int
	// OneKey: the charges of a request without a group must all have the same key. Other requests are refused with an error that
	// wraps ErrUnsupported.
	OneKey bool
	// RoundTrips is how many a request takes, 0 for a store in the same process.
	RoundTrips int
}
