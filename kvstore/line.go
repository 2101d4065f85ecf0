package kvstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"strings"
	"sync"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// shard holds the lines of some owners, and what this process remembers about their entries.
type shard struct {
	mu            sync.Mutex
	lines         map[owner]*line // for every owner whose entry callers wait for
	remembered    map[string]memory
	maxRemembered int  // entries in remembered
	values        bool // whether values are remembered, and not only conflicts
}

func (s *shard) init(remember, shards int) {
	s.lines, s.remembered = map[owner]*line{}, map[string]memory{}
	s.values = remember > 0
	s.maxRemembered = max((remember+shards-1)/shards, minRemembered)
}

// line holds the callers that wait for one entry. While a line exists, exactly one goroutine works for it.
type line struct{ waiting []*waiter }

// waiter holds the requests of one caller for one entry. The worker decides copies, because the caller may leave earlier.
type waiter struct {
	shard    *shard
	requests []*store.Request // the caller's own requests; only the caller touches them
	copies   []*store.Request
	done     chan struct{}
	left     bool // guarded by shard.mu: the caller has left

	first        requestCopy // memory for the usual single request
	firstRequest [1]*store.Request
	firstCopy    [1]*store.Request
}

// requestCopy is a request with memory for its usual single charge.
type requestCopy struct {
	request store.Request
	charge  [1]store.Charge
	answer  [1]rule.Answer
}

// maxTogether is the largest number of requests decided by one swap, so that a long line does not make its first callers wait.
const maxTogether = 1024

func newWaiter(r *store.Request) *waiter {
	w := &waiter{done: make(chan struct{})}
	w.requests, w.copies = append(w.firstRequest[:0], r), append(w.firstCopy[:0], w.first.copyOf(r))
	return w
}

func (w *waiter) add(r *store.Request) {
	w.requests, w.copies = append(w.requests, r), append(w.copies, new(requestCopy).copyOf(r))
}

// copyOf copies a request into c so that it shares no memory with r.
func (c *requestCopy) copyOf(r *store.Request) *store.Request {
	c.request = *r
	c.request.Group = strings.Clone(r.Group)
	c.request.Charges = append(c.charge[:0], r.Charges...)
	for i := range c.request.Charges {
		c.request.Charges[i].Key = strings.Clone(r.Charges[i].Key)
	}
	if c.request.Answers = c.answer[:]; len(r.Charges) != 1 {
		c.request.Answers = make([]rule.Answer, len(r.Charges))
	}
	return &c.request
}

// join adds w to the line for an owner's entry, and starts the line if necessary. Callers are distinguished by owner and not by
// the name of the entry, so that only one of them has to hash it.
func (s *Store) join(of owner, w *waiter) *waiter {
	w.shard = &s.shards[maphash.String(s.seed, of.name)%uint64(len(s.shards))]
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	l := w.shard.lines[of]
	if l == nil {
		l = &line{}
		of.name = strings.Clone(of.name) // the caller may leave, and take its memory back
		w.shard.lines[of] = l
		go s.work(w.shard, of, l)
	}
	l.waiting = append(l.waiting, w)
	return w
}

// finish waits until the requests have been decided, and copies the answers to the caller's requests. If ctx ends first, their Err
// is its error.
func (w *waiter) finish(ctx context.Context) {
	select {
	case <-w.done:
		for i, r := range w.requests {
			if r.Err = w.copies[i].Err; r.Err == nil {
				copy(r.Answers, w.copies[i].Answers)
			}
		}
	case <-ctx.Done():
		w.shard.mu.Lock()
		w.left = true
		w.shard.mu.Unlock()
		err := fmt.Errorf("kvstore: %w", ctx.Err())
		for _, r := range w.requests {
			r.Err = err
		}
	}
}

// hasWaiters reports whether callers wait in a line.
func (s *shard) hasWaiters(l *line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(l.waiting) > 0
}

// next takes the first callers out of a line. It skips callers that have left, so their requests are never decided. If no caller
// remains, it ends the line.
func (s *shard) next(of owner, l *line) (taken []*waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count, at := 0, 0
	for ; at < len(l.waiting); at++ {
		w := l.waiting[at]
		if w.left {
			continue
		}
		if count += len(w.copies); count > maxTogether && len(taken) > 0 {
			break
		}
		taken = append(taken, w)
	}
	clear(l.waiting[:at])
	if l.waiting = l.waiting[at:]; len(taken) == 0 {
		delete(s.lines, of)
	}
	return taken
}

// work decides for the callers in a line until it is empty.
func (s *Store) work(shard *shard, of owner, l *line) {
	name := s.entryName(of)
	for {
		runtime.Gosched() // lets callers that are about to join, such as those just answered, join this batch rather than the next one
		known := shard.recall(name)
		if known.conflicts > 0 && shard.hasWaiters(l) {
			known.yield(s.opts.Timeout)
		}
		taken := shard.next(of, l)
		if len(taken) == 0 {
			return
		}
		requests := make([]*store.Request, 0, len(taken))
		for _, w := range taken {
			requests = append(requests, w.copies...)
		}
		shard.remember(name, s.decideTogether(name, known, requests))
		for _, w := range taken {
			close(w.done)
		}
	}
}
