package kvstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options are the choices of a Store. The zero value is good.
type Options struct {
	// Prefix is what the names of entries begin with: letters, digits and "-"; "slidegate" if it is empty.
	Prefix string
	// Timeout is how long the engine may take over a decision, all attempts together; 0 means a second. A caller's own deadline ends
	// its waiting earlier.
	Timeout time.Duration
	// Grace is how much longer than needed the engine keeps an entry; 0 means a minute. It has to cover by how much clocks differ.
	Grace time.Duration
	// Remember is how many entries that this process has written last are remembered, so that the next decision about them need not
	// read them first; 0 means 4,096, negative none.
	Remember int
	// Now replaces the engine's clock, for tests.
	Now func() rule.Micros
}

const (
	maxCharges      = 64 // of one request
	defaultRemember = 4096
	defaultMaxName  = 64
	defaultMaxValue = 1 << 20
	nameBytes       = 16 // of the hash of a key that stand in the name of its entry
)

// Store keeps state in a key-value engine. It is safe for concurrent use. The zero value is not usable; New makes it.
type Store struct {
	store.Registry // of the limits that limiters have over this store

	engine   Engine
	traits   Traits
	opts     Options
	now      func() rule.Micros
	seed     maphash.Seed
	lines    [64]shard
	maxValue int
}

// New returns a store over an engine, which stays the caller's to close. It does no I/O.
func New(engine Engine, opts Options) (*Store, error) {
	if engine == nil {
		return nil, errors.New("kvstore: engine: must not be nil; packages natskv and memcached have some")
	}
	s := &Store{engine: engine, traits: engine.Traits(), opts: opts, now: opts.Now, seed: maphash.MakeSeed()}
	if s.now == nil {
		s.now = engine.Now
	}
	if s.opts.Prefix == "" {
		s.opts.Prefix = "slidegate"
	}
	if s.opts.Timeout == 0 {
		s.opts.Timeout = time.Second
	}
	if s.opts.Grace == 0 {
		s.opts.Grace = time.Minute
	}
	if s.opts.Remember == 0 {
		s.opts.Remember = defaultRemember
	}
	if s.traits.MaxName == 0 {
		s.traits.MaxName = defaultMaxName
	}
	if s.maxValue = s.traits.MaxValue; s.maxValue == 0 {
		s.maxValue = defaultMaxValue
	}
	for i := range s.lines {
		s.lines[i].most = max(0, s.opts.Remember/len(s.lines))
	}
	return s, s.opts.check(s.traits.MaxName)
}

func (o *Options) check(maxName int) error {
	switch longest := maxName - 1 - 2*nameBytes; {
	case strings.ContainsFunc(o.Prefix, notInName) || len(o.Prefix) > longest:
		return fmt.Errorf("kvstore: prefix: %q: use at most %d letters, digits and -", o.Prefix, longest)
	case o.Timeout < 0:
		return fmt.Errorf("kvstore: timeout: must not be negative, it is %v; 0 means a second", o.Timeout)
	case o.Grace < 0:
		return fmt.Errorf("kvstore: grace: must not be negative, it is %v; 0 means a minute", o.Grace)
	}
	return nil
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}

// Check accepts every limit: the rule itself decides.
func (s *Store) Check(*store.Limit) error { return nil }

// Traits reports what the store can do.
func (s *Store) Traits() store.Traits {
	return store.Traits{Name: s.traits.Name, ServerClock: s.traits.ServerClock, MaxCharges: maxCharges, OneKey: true, RoundTrips: 2}
}

// Apply decides a batch of requests: those of one entry together, entries side by side.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if err := ctx.Err(); err != nil {
		err = fmt.Errorf("kvstore: %w", err)
		for i := range batch {
			batch[i].Err = err
		}
		return first(batch)
	}
	if len(batch) == 1 { // the most common one
		r := &batch[0]
		name, err := s.nameOf(r)
		if r.Err = err; err == nil {
			s.join(name, []*store.Request{r}).finish(ctx)
		}
		return r.Err
	}
	byName := map[string][]*store.Request{}
	var order []string
	for i := range batch {
		r := &batch[i]
		name, err := s.nameOf(r)
		if r.Err = err; err != nil {
			continue
		}
		if byName[name] == nil {
			order = append(order, name)
		}
		byName[name] = append(byName[name], r)
	}
	waits := make([]*wait, len(order))
	for i, name := range order {
		waits[i] = s.join(name, byName[name])
	}
	for _, w := range waits {
		w.finish(ctx)
	}
	return first(batch)
}

func first(batch []store.Request) error {
	for i := range batch {
		if batch[i].Err != nil {
			return batch[i].Err
		}
	}
	return nil
}

// nameOf returns the name of the entry that a request is decided on, or an error if there is no such.
func (s *Store) nameOf(r *store.Request) (string, error) {
	what, of := "k", r.Charges[0].Key
	if r.Group != "" {
		what, of = "g", r.Group
	}
	if len(r.Charges) > maxCharges {
		return "", fmt.Errorf("kvstore: %w: %d limits at once, this store decides at most %d atomically", store.ErrUnsupported, len(r.Charges), maxCharges)
	}
	for i := range r.Charges {
		if r.Group == "" && r.Charges[i].Key != of {
			return "", fmt.Errorf("kvstore: %w: limits of different keys are decided together only in a group; set one, or ask for them one after the other", store.ErrUnsupported)
		}
	}
	sum := sha256.Sum256([]byte(what + of))
	return s.opts.Prefix + "-" + hex.EncodeToString(sum[:nameBytes]), nil
}
