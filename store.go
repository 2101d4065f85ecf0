package slidegate

import (
	"context"

	"github.com/slidegate/slidegate/rule"
)

// Micros is a moment since the Unix epoch, or a length of time, in microseconds.
type Micros = rule.Micros

// Answer is what one limit says to one request; see rule.Answer.
type Answer = rule.Answer

// Op is what a request does with its charges.
type Op = rule.Op

// The operations; see the package rule for what each one does.
const (
	OpTake     = rule.Take
	OpTakeUpTo = rule.TakeUpTo
	OpPeek     = rule.Peek
	OpCharge   = rule.Charge
	OpGiveBack = rule.GiveBack
	OpReset    = rule.Reset
)

// Store is where state lives and where a decision is made atomically. Limiters, layers and servers all talk to this
// interface; whoever implements it runs storetest.Run against it. A Store is safe for concurrent use.
//
// The decision rule is the package rule, the same for every store. A store that can run Go at its data loads the states
// of a request, calls rule.Decide and stores what changed. A store that decides elsewhere (a script, a function in the
// database) ports rule's roll, room and charge, returns the integers of the new state with the time, and derives the
// answers from them with Limit.Answer. Either way the answers must agree with rule's to the last microsecond and unit.
//
// What every store keeps to:
//
//   - State belongs to an address: Charge.Limit's Prefix (namespace, name, shape), Request.Group and Charge.Key. Keys are
//     any bytes of any length, and different addresses never share state by the way their names are built.
//   - Requests are atomic, each by itself: no other request is decided between its charges. The requests of a batch are
//     decided in order where they share an address; across addresses the order is free.
//   - One clock decides: a store with a server uses the server's clock, read once a request, inside the critical section.
//     Time never goes backwards for a key, as rule has it.
//   - A refusal writes nothing, unless the limit counts refusals or the state was left ahead by a clock that jumped
//     (rule.ClockMoved). A peek writes nothing.
//   - A store may forget a state once rule's Expires has come, never before; should the clock then step back, it does not
//     matter whether the state is still there. When a store must forget a live state to stay within its bounds, the key
//     that takes the place inherits what was forgotten, and its answers carry rule.Inherited.
//   - A store whose keys live on several nodes refuses a request over several of them with an error that wraps ErrStore,
//     unless its group puts them on one node.
type Store interface {
	// Apply decides a batch of requests. For each it fills Answers and sets Err to nil, or sets Err. It returns the first
	// of those errors, so a caller with one request need only look at what is returned.
	//
	// An error means that the answer is unknown: the request may have been charged or not, or may be yet. It is never a
	// refusal. When ctx ends, Apply returns soon, and what was not answered by then has ctx's error. Apply keeps no
	// reference to the batch or anything in it after it returns.
	Apply(ctx context.Context, batch []Request) error

	// Check returns an error that wraps ErrStore when the store cannot keep this limit exactly, else nil. It does no I/O.
	Check(limit *BoundLimit) error

	// Traits tells what the store can do. It does no I/O.
	Traits() Traits
}

// OneTaker is what a Store may be besides: a way to decide the commonest request, OpTake with a single charge and no
// group, without a batch. It answers as Apply would; what is granted is the cost, if allowed. A Limiter uses it where it
// is there. The answer comes as plain numbers because those stay in registers: as an Answer it would be copied through
// memory at every step, which takes longer than all the rest of a decision in memory.
type OneTaker interface {
	TakeOne(ctx context.Context, limit *BoundLimit, key string, cost int64) (
		allowed bool, flags Flags, remaining int64, retryAfter, resetAfter, at Micros, err error)
}

// Request is one question to a Store: one operation over one or more charges, all or nothing.
type Request struct {
	Op Op
	// Group is part of the address of every charge. Stores made of several nodes keep a group on one node, so that
	// several charges are decided in one round trip. It may be empty.
	Group string
	// Charges are at least one and at most Traits.MaxCharges. No two of them have the same address: Limiter adds up the
	// costs of those that do.
	Charges []Charge
	// Answers has one place for each charge. The caller owns it, the store fills it.
	Answers []Answer
	// Err is set by the store: nil when Answers is filled.
	Err error
}

// Charge is one limit's part in a request.
type Charge struct {
	Limit *BoundLimit
	Key   string
	Cost  int64  // 0 to rule.MaxQuota
	At    Micros // OpGiveBack only: the At of the answer that charged the units, or rule.Oldest for the oldest ones
}

// Traits tells what a Store can do.
type Traits struct {
	// Name is what metrics and logs call the store, such as "memory" or "redis".
	Name string
	// ServerClock: one clock decides for all processes that share the store.
	ServerClock bool
	// MaxCharges is how many charges one request may have; 1 if the store is not atomic over several keys.
	MaxCharges int
	// RoundTrips is how many a request takes, 0 for a store in the same process.
	RoundTrips int
}
