package refusals

import (
	"context"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// job is the reusable memory of a call.
type job struct {
	lookups  []lookup        // one per request of the batch
	requests []store.Request // the requests that go to the inner store
}

// put recycles a job, cleared of the caller's data.
func (s *Store) put(j *job) {
	clear(j.lookups)
	clear(j.requests)
	j.lookups, j.requests = j.lookups[:0], j.requests[:0]
	s.work.Put(j)
}

// Apply refuses what it can from the cache and passes the rest to the inner store in one call.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	// This comes before any lookup: requests that share an address with a reset in this batch go to the store, in
	// order.
	if s.beginAll(batch) {
		defer s.endAll(batch)
	}
	if len(batch) == 1 {
		l := lookup{now: s.clock()}
		if s.answerCached(&l, &batch[0]) {
			return nil
		}
		err := s.inner.Apply(ctx, batch)
		s.record(&l, &batch[0])
		return err
	}
	j := s.work.Get().(*job)
	defer s.put(j)
	return s.applyMany(ctx, batch, j)
}

func (s *Store) applyMany(ctx context.Context, batch []store.Request, j *job) error {
	now := s.clock()
	for i := range batch {
		j.lookups = append(j.lookups, lookup{now: now})
		if !s.answerCached(&j.lookups[i], &batch[i]) {
			j.requests = append(j.requests, batch[i])
		}
	}
	if len(batch) > 0 && len(j.requests) == 0 {
		return nil
	}
	// The inner store writes to the caller's answers, but to our copies of the errors. Requests answered here have no
	// error, so the first error that the store returns is the first of the batch.
	err := s.inner.Apply(ctx, j.requests)
	sent := j.requests
	for i := range batch {
		if l := &j.lookups[i]; !l.hit {
			batch[i].Err = sent[0].Err
			sent = sent[1:]
			s.record(l, &batch[i])
		}
	}
	return err
}

// answerCached refuses a request if its refusal is remembered, and reports whether it did. A call that counts once may have been admitted
// before: only the store knows.
func (s *Store) answerCached(l *lookup, r *store.Request) (hit bool) {
	if r.Once || len(r.Answers) < len(r.Charges) || !s.rememberable(r.Op, r.Group, r.Charges) {
		return false
	}
	s.fillLookup(l, r.Group, r.Charges)
	e := l.find(r.Group, r.Charges)
	if e == nil {
		s.count(l.hash).misses.Add(1)
		return false
	}
	s.count(l.hash).hits.Add(1)
	for i := range r.Charges {
		e.fill(&r.Answers[i], i, r.Charges[i].Cost, l.now)
	}
	r.Err = nil
	l.hit = true
	return true
}

// record records the store's answer.
func (s *Store) record(l *lookup, r *store.Request) {
	if r.Err == nil && len(r.Answers) >= len(r.Charges) {
		s.remember(l, r.Group, r.Charges, r.Answers[:len(r.Charges)])
	}
}

// remember remembers the answers to a request if they are a refusal without flags.
func (s *Store) remember(l *lookup, group string, charges []store.Charge, answers []rule.Answer) {
	var flags rule.Flags
	allowed := true
	for i := range answers {
		flags |= answers[i].Flags
		allowed = allowed && answers[i].Allowed
	}
	switch {
	case flags != 0:
		s.forgetMoved(flags, group, charges)
	case !allowed:
		s.add(l, group, charges, answers)
	}
}

// beginAll calls begin for every request of a batch that lowers usage, and reports whether there is any. It also
// records the plans of token buckets, which matter to other requests even if nothing of this one is remembered.
func (s *Store) beginAll(batch []store.Request) (any bool) {
	for i := range batch {
		r := &batch[i]
		for j := range r.Charges {
			if limit := r.Charges[j].Limit; limit.Rule().Algorithm == rule.TokenBucket {
				s.prefixOf(limit)
			}
		}
		if lowers(r.Op) {
			s.begin(r.Group, r.Charges)
			any = true
		}
	}
	return any
}

// endAll calls end where beginAll called begin.
func (s *Store) endAll(batch []store.Request) {
	for i := range batch {
		if r := &batch[i]; lowers(r.Op) {
			s.end(r.Group, r.Charges)
		}
	}
}
