package kvstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// shard is some of the lines, and of the entries that are remembered.
type shard struct {
	mu    sync.Mutex
	lines map[string]*line // of names that somebody waits for
	known map[string]known // of names that this process wrote last
	most  int              // of known
}

// known is an entry as this process wrote it last.
type known struct {
	value    []byte
	revision uint64
	skips    int // so many times it is read all the same, since another process was at it
}

// line is those who wait for one entry. One goroutine works for all of them.
type line struct{ waiting []*wait }

// wait is the requests of one caller for one entry.
type wait struct {
	shard    *shard
	line     *line
	theirs   []*store.Request // the caller's, which are not touched once it has left
	requests []store.Request  // copies
	done     chan struct{}
	taken    bool // guarded by the shard
}

// maxTogether is how many requests are decided by one swap at most: each may wait for the ones before it.
const maxTogether = 1024

// join puts requests into the line for an entry, and sees to it that somebody works on it.
func (s *Store) join(name string, requests []*store.Request) *wait {
	shard := &s.lines[maphash.String(s.seed, name)%uint64(len(s.lines))]
	w := &wait{shard: shard, theirs: requests, requests: make([]store.Request, len(requests)), done: make(chan struct{})}
	for i, r := range requests {
		w.requests[i] = copyOf(r)
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	l := shard.lines[name]
	if l == nil {
		l = &line{}
		if shard.lines == nil {
			shard.lines, shard.known = map[string]*line{}, map[string]known{}
		}
		shard.lines[name] = l
		go s.work(shard, name, l)
	}
	w.line = l
	l.waiting = append(l.waiting, w)
	return w
}

// copyOf returns a request that shares no memory with r: its caller may leave before it is decided.
func copyOf(r *store.Request) store.Request {
	c := *r
	c.Group = strings.Clone(r.Group)
	c.Charges = slices.Clone(r.Charges)
	for i := range c.Charges {
		c.Charges[i].Key = strings.Clone(c.Charges[i].Key)
	}
	c.Answers = make([]rule.Answer, len(r.Charges))
	return c
}

// finish waits for the answers, or for the end of ctx, and hands them out.
func (w *wait) finish(ctx context.Context) {
	select {
	case <-w.done:
		for i, r := range w.theirs {
			if r.Err = w.requests[i].Err; r.Err == nil {
				copy(r.Answers, w.requests[i].Answers)
			}
		}
		return
	case <-ctx.Done():
	}
	w.shard.mu.Lock()
	if !w.taken {
		w.line.waiting = slices.DeleteFunc(w.line.waiting, func(other *wait) bool { return other == w })
	}
	w.shard.mu.Unlock()
	err := fmt.Errorf("kvstore: %w", ctx.Err())
	for _, r := range w.theirs {
		r.Err = err
	}
}

// next takes those who wait, up to maxTogether, and ends the line if there are none.
func (s *shard) next(name string, l *line) (taken []*wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for len(l.waiting) > 0 && (count == 0 || count+len(l.waiting[0].requests) <= maxTogether) {
		w := l.waiting[0]
		w.taken = true
		count += len(w.requests)
		taken = append(taken, w)
		l.waiting = l.waiting[1:]
	}
	if len(taken) == 0 {
		delete(s.lines, name)
	}
	return taken
}

// work decides for all who wait for an entry, until nobody does.
func (s *Store) work(shard *shard, name string, l *line) {
	for {
		taken := shard.next(name, l)
		if len(taken) == 0 {
			return
		}
		if err := s.decideAll(shard, name, taken); err != nil {
			for _, w := range taken {
				for i := range w.requests {
					w.requests[i].Err = err
				}
			}
		}
		for _, w := range taken {
			close(w.done)
		}
	}
}

// tries is how often a swap is tried that others are faster with.
const tries = 64

// decideAll decides the requests of all who were taken by one swap. An error is one of them all, and means that the outcome is unknown.
func (s *Store) decideAll(shard *shard, name string, taken []*wait) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
	defer cancel()
	at, remembered := shard.recall(name)
	for try := range tries {
		if !remembered {
			var err error
			if at.value, at.revision, err = s.engine.Get(ctx, name); err != nil {
				return s.failed("read", err)
			}
		}
		e, err := decodeEntry(at.value)
		if err != nil {
			return err
		}
		now := s.decideOn(e, taken)
		if !e.changed && remembered { // somebody else may have changed it since
			remembered = false
			continue
		}
		if !e.changed {
			return nil
		}
		value, last := e.encode(now)
		if len(value) > s.maxValue {
			return fmt.Errorf("kvstore: the entry has %d bytes and %s takes %d: fewer limits and settlements to a key, or fewer keys to a group", len(value), s.traits.Name, s.maxValue)
		}
		revision, err := s.engine.Swap(ctx, name, value, at.revision, max(time.Second, (last-now).Duration())+s.opts.Grace)
		switch {
		case err == nil:
			shard.remember(name, known{value: value, revision: revision, skips: at.skips})
			return nil
		case !errors.Is(err, ErrConflict):
			shard.forget(name)
			return s.failed("swap", err)
		}
		if remembered {
			at.skips = skipsAfterConflict
		}
		remembered = false
		if err := pause(ctx, try); err != nil {
			return s.failed("swap", err)
		}
	}
	return fmt.Errorf("kvstore: %s: %d attempts to change an entry met other processes that were faster; take fewer processes to a key, or leases", s.traits.Name, tries)
}

// decideOn decides all requests on an entry, in their order.
func (s *Store) decideOn(e *entry, taken []*wait) (now rule.Micros) {
	for _, w := range taken {
		for i := range w.requests {
			r := &w.requests[i]
			now = s.now()
			r.Err = e.decide(r, now)
		}
	}
	return now
}

func (s *Store) failed(what string, err error) error {
	return fmt.Errorf("kvstore: %s: %s: %w", s.traits.Name, what, err)
}

// pause waits longer the more attempts there were, and never equally long, so that processes that meet do not meet again.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return nil
	}
	timer := time.NewTimer(rand.N(100 * time.Microsecond << min(try, 7)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// longestKnown is how long an entry may be that is remembered.
const longestKnown = 4 << 10

// skipsAfterConflict is how often an entry is read first after another process was found to write it too.
const skipsAfterConflict = 8

// recall returns the entry as this process wrote it last, if it did and no other process was met there lately.
func (s *shard) recall(name string) (known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[name]
	if ok && k.skips > 0 {
		k.skips--
		s.known[name] = k
		return known{skips: k.skips}, false
	}
	return k, ok
}

// remember keeps an entry that was written, in the place of any other if there are too many.
func (s *shard) remember(name string, k known) {
	if s.most == 0 || k.revision == 0 || len(k.value) > longestKnown {
		s.forget(name)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.known[name]; !there && len(s.known) >= s.most {
		for other := range s.known {
			delete(s.known, other)
			break
		}
	}
	s.known[name] = k
}

func (s *shard) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, name)
}
