package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// roundTrip is what is sent for one batch. Its memory is reused.
type roundTrip struct {
	parts     []part
	addresses []string // unique, sorted
	numbers   []int64
	args      []any
	reply     []int64
	entries   []entry // for the fast paths
	kinds     []int64 // of the entries
	quotas    []int64
	windows   []int64
	costs     []int64
	counts    []int64
	text      []byte

	state       rule.State // that a run is decided by
	stateCounts [rule.MaxSegments + 1]int64
}

// part is one charge of a batch.
type part struct {
	address     string
	request, of int // its indexes in the batch and in its request
}

var roundTrips = sync.Pool{New: func() any { return new(roundTrip) }}

// recycle puts the round trip back into the pool, without the caller's keys.
func (t *roundTrip) recycle() {
	clear(t.parts)
	clear(t.addresses)
	clear(t.args)
	t.parts, t.addresses, t.numbers, t.args, t.reply = t.parts[:0], t.addresses[:0], t.numbers[:0], t.args[:0], t.reply[:0]
	t.entries, t.kinds, t.quotas, t.windows = t.entries[:0], t.kinds[:0], t.quotas[:0], t.windows[:0]
	t.costs, t.counts = t.costs[:0], t.counts[:0]
	roundTrips.Put(t)
}

// applySome decides a batch that fits one call. If the call fails because of one of its keys, the server has rolled it back, and it
// is sent again in two halves: the others are not concerned.
func (s *Store) applySome(ctx context.Context, batch []store.Request) {
	err := s.applyOnce(ctx, batch)
	if err == nil || len(batch) == 1 || ctx.Err() != nil || !concernsKey(err) {
		return
	}
	half := len(batch) / 2
	s.applySome(ctx, batch[:half])
	s.applySome(ctx, batch[half:])
}

// concernsKey reports whether the server rolled back a call, because of what one of its rows contains or would contain.
func concernsKey(err error) bool {
	code := codeOf(err)
	if len(code) < 2 {
		return false
	}
	switch code[:2] {
	case otherFormat[:2], "21", "22", "23", "54", "P0": // cardinality, data, constraints, limits of the program, raised
		return true
	}
	return false
}

// applyOnce decides a batch in one call, and returns the error of the call.
func (s *Store) applyOnce(ctx context.Context, batch []store.Request) error {
	t := roundTrips.Get().(*roundTrip)
	defer t.recycle()
	t.address(s, batch)
	if len(t.parts) == 0 {
		return nil
	}
	fast, pairs := areFast(batch, t.parts)
	fast = fast && t.planRuns(batch)
	statement := t.planBatch(s, batch, fast, pairs)
	err := s.call(ctx, statement, t)
	switch {
	case err != nil:
	case fast && pairs:
		err = t.readTakes(batch)
	case fast:
		err = t.readAny(batch)
	default:
		if now, outside := t.outside(); outside { // this machine's clock is days off
			t.planBounds(batch, now)
			err = s.call(ctx, statement, t)
		}
		if err == nil {
			err = t.read(batch)
		}
	}
	for i := range t.parts {
		batch[t.parts[i].request].Err = err
	}
	return err
}

// planBatch encodes a batch for a function, and returns the statement that calls the function.
func (t *roundTrip) planBatch(s *Store, batch []store.Request, fast, pairs bool) (statement string) {
	one := len(t.entries) == 1
	switch {
	case fast && pairs && one:
		t.planTake(s, batch)
		return s.take
	case fast && pairs:
		t.planTakes(s, batch)
		return s.takeMany
	case fast:
		t.planAny(s, batch)
		switch {
		case one:
			return s.takeAny
		case t.areDefault(batch):
			return s.takeDefaultMany
		}
		return s.takeAnyMany
	case t.plan(s, batch):
		return s.decideOne
	default:
		return s.decide
	}
}

// call calls a function. A call that the server reports as rolled back is repeated: it is certainly not charged.
func (s *Store) call(ctx context.Context, statement string, t *roundTrip) (err error) {
	for range maxTries {
		t.reply, err = call(ctx, s.db, statement, t.args, t.reply[:0])
		if err == nil {
			return nil
		}
		if code := codeOf(err); ctx.Err() != nil || code != serializationFailure && code != deadlockDetected {
			break
		}
	}
	return explain(ctx, err)
}

// address computes the addresses of all charges. A request that cannot be sent gets its error immediately.
func (t *roundTrip) address(s *Store, batch []store.Request) {
	for i := range batch {
		r := &batch[i]
		if len(r.Charges) == 0 || len(r.Charges) > maxCharges {
			r.Err = fmt.Errorf("pgstore: %w: a request has 1 to %d charges, not %d", store.ErrUnsupported, maxCharges, len(r.Charges))
			continue
		}
		for j := range r.Charges {
			t.text = appendAddress(t.text[:0], s.prefix(r.Charges[j].Limit), r.Group, r.Charges[j].Key)
			t.parts = append(t.parts, part{string(t.text), i, j})
		}
	}
}

func codeOf(err error) string {
	var known *pgconn.PgError
	if errors.As(err, &known) {
		return known.Code
	}
	return ""
}
