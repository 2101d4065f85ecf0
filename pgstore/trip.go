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

// trip is what is sent for one batch. Its memory is used again.
type trip struct {
	parts     []part
	addresses []string // each once, in order
	numbers   []int64
	args      []any
	reply     []int64
	entries   []entry // for the short way
	kinds     []int64 // of the entries,
	quotas    []int64
	windows   []int64
	costs     []int64
	counts    []int64
	text      []byte
}

// part is one charge of a batch.
type part struct {
	address     string
	request, of int // its place in the batch, and in its request
}

var trips = sync.Pool{New: func() any { return new(trip) }}

// recycle gives the trip's memory back, without the caller's keys in it.
func (t *trip) recycle() {
	clear(t.parts)
	clear(t.addresses)
	clear(t.args)
	t.parts, t.addresses, t.numbers, t.args, t.reply = t.parts[:0], t.addresses[:0], t.numbers[:0], t.args[:0], t.reply[:0]
	t.entries, t.kinds, t.quotas, t.windows = t.entries[:0], t.kinds[:0], t.quotas[:0], t.windows[:0]
	t.costs, t.counts = t.costs[:0], t.counts[:0]
	trips.Put(t)
}

// applySome decides a batch that goes into one call.
func (s *Store) applySome(ctx context.Context, batch []store.Request) {
	t := trips.Get().(*trip)
	defer t.recycle()
	t.address(s, batch)
	if len(t.parts) == 0 {
		return
	}
	short, pairs := areShort(batch, t.parts)
	short = short && t.planRuns(batch)
	statement := t.planBatch(s, batch, short, pairs)
	err := s.call(ctx, statement, t)
	switch {
	case err != nil:
	case short && pairs:
		err = t.readTakes(batch)
	case short:
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
}

// planBatch writes a batch as a function reads it, and returns the statement that calls the function.
func (t *trip) planBatch(s *Store, batch []store.Request, short, pairs bool) (statement string) {
	one := len(t.entries) == 1
	switch {
	case short && pairs && one:
		t.planTake(s, batch)
		return s.take
	case short && pairs:
		t.planTakes(s, batch)
		return s.takeMany
	case short:
		t.planAny(s, batch)
		if one {
			return s.takeAny
		}
		return s.takesAny
	case t.plan(s, batch):
		return s.single
	default:
		return s.decide
	}
}

// call calls a function. What the server says that it has undone is called again: it is surely not charged.
func (s *Store) call(ctx context.Context, statement string, t *trip) (err error) {
	for range maxTries {
		t.reply, err = s.conn.Call(ctx, statement, t.args, t.reply[:0])
		if err == nil {
			return nil
		}
		if code := codeOf(err); ctx.Err() != nil || code != serializationFailure && code != deadlockDetected {
			break
		}
	}
	return explain(ctx, err)
}

// address finds the addresses of all charges. A request that cannot be sent gets its error at once.
func (t *trip) address(s *Store, batch []store.Request) {
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

// finish makes an answer of a state after the decision.
func finish(l *rule.Limit, s *rule.State, now rule.Micros, cost, granted int64, allowed, moved bool) rule.Answer {
	v := l.Look(s, now)
	a := l.Answer(s, &v, cost, granted, allowed)
	if moved {
		a.Flags |= rule.ClockMoved
	}
	return a
}

func codeOf(err error) string {
	var known interface{ SQLState() string } // of pgx and of lib/pq
	if errors.As(err, &known) {
		return known.SQLState()
	}
	return ""
}

var _ interface{ SQLState() string } = (*pgconn.PgError)(nil)
