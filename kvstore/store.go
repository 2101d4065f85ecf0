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

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Store. The zero value is ready to use.
type Options struct {
	// Prefix begins the name of every entry, so that several stores can share an engine. It consists of letters, digits and "-";
	// if it is empty, "slidegate" is used.
	Prefix string
	// Timeout bounds the time the engine may take for a decision, including all retries; 0 means one second. A caller that arrives
	// while a decision about the same entry is under way waits for that one first. A caller's own deadline ends its wait earlier.
	Timeout time.Duration
	// Grace is how much longer than necessary the engine keeps an entry; 0 means one minute. It must exceed the difference between
	// the clocks of the processes and the engine's clock.
	Grace time.Duration
	// Remember is the number of entries this process remembers after writing them, so that its next decision about one of them
	// need not read it first; 0 means 16,384, and a negative number means none. An entry of one limit takes about 300 bytes of memory;
	// entries of more than 4 kB are not remembered.
	Remember int
	// Now replaces the engine's clock in tests.
	Now func() rule.Micros
}

const (
	maxCharges      = 64 // per request
	defaultRemember = 16_384
	defaultMaxName  = 64
	defaultMaxValue = 1 << 20
	hashBytes       = 16 // of a key's hash, in the name of its entry
)

// Store keeps state in a key-value engine. It is safe for concurrent use. The zero value is not usable; call New.
type Store struct {
	store.Registry // the limits declared by limiters over this store

	engine    Engine
	traits    Traits
	opts      Options
	now       func() rule.Micros
	hashBytes int // a field so that tests can make names collide
	seed      maphash.Seed
	shards    [64]shard
}

// New returns a store over an engine. The caller keeps the engine, and closes it after the store's last use. New does no I/O.
func New(engine Engine, opts Options) (*Store, error) {
	if engine == nil {
		return nil, errors.New("kvstore: engine: must not be nil; open one with package natskv")
	}
	opts = opts.withDefaults()
	s := &Store{engine: engine, traits: engine.Traits(), opts: opts, now: opts.Now, hashBytes: hashBytes, seed: maphash.MakeSeed()}
	if s.now == nil {
		s.now = engine.Now
	}
	if s.traits.MaxName == 0 {
		s.traits.MaxName = defaultMaxName
	}
	if s.traits.MaxValue == 0 {
		s.traits.MaxValue = defaultMaxValue
	}
	for i := range s.shards {
		s.shards[i].init(opts.Remember, len(s.shards))
	}
	return s, opts.check(s.traits.MaxName)
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "slidegate"
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Grace == 0 {
		o.Grace = time.Minute
	}
	if o.Remember == 0 {
		o.Remember = defaultRemember
	}
	return o
}

func (o *Options) check(maxName int) error {
	switch longest := maxName - 1 - 2*hashBytes; {
	case strings.ContainsFunc(o.Prefix, notInName):
		return fmt.Errorf("kvstore: prefix: %q is invalid; use only letters, digits and -", o.Prefix)
	case len(o.Prefix) > longest:
		return fmt.Errorf("kvstore: prefix: %q has %d bytes; use at most %d", o.Prefix, len(o.Prefix), longest)
	case o.Timeout < 0:
		return fmt.Errorf("kvstore: timeout: must not be negative, got %v; 0 means one second", o.Timeout)
	case o.Grace < 0:
		return fmt.Errorf("kvstore: grace: must not be negative, got %v; 0 means one minute", o.Grace)
	}
	return nil
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}

// Check accepts every limit, because the rule itself decides.
func (s *Store) Check(*store.Limit) error { return nil }

// Traits reports what the store can do.
func (s *Store) Traits() store.Traits {
	return store.Traits{
		Name: s.traits.Name, ServerClock: s.traits.ServerClock, MaxCharges: maxCharges, OneKey: true, RoundTrips: 2,
		Calls: -1, // the waiters for an entry share a swap
	}
}

// Apply decides a batch of requests: those for the same entry by one swap, different entries concurrently.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if err := ctx.Err(); err != nil {
		return batches.FailAll(batch, fmt.Errorf("kvstore: %w", err))
	}
	if len(batch) == 1 { // the most common case
		r := &batch[0]
		of, err := ownerOf(r)
		if r.Err = err; err == nil {
			s.join(of, newWaiter(r)).finish(ctx)
		}
		return r.Err
	}
	waits, owners := map[owner]*waiter{}, []owner(nil)
	for i := range batch {
		r := &batch[i]
		of, err := ownerOf(r)
		if r.Err = err; err != nil {
			continue
		}
		if w := waits[of]; w != nil {
			w.add(r)
			continue
		}
		waits[of] = newWaiter(r)
		owners = append(owners, of)
	}
	for _, of := range owners {
		s.join(of, waits[of])
	}
	for _, w := range waits {
		w.finish(ctx)
	}
	return batches.FirstError(batch)
}

// owner is what an entry belongs to: a key, or a group.
type owner struct {
	kind byte // 'k' or 'g'
	name string
}

// ownerAt returns the owner of the entry with the state of an address.
func ownerAt(group, key string) owner {
	if group != "" {
		return owner{'g', group}
	}
	return owner{'k', key}
}

// ownerOf returns the owner of the entry that decides a request, or an error if no single entry can.
func ownerOf(r *store.Request) (owner, error) {
	if len(r.Charges) > maxCharges {
		return owner{}, fmt.Errorf("kvstore: %w: the request has %d charges, and this store decides at most %d atomically",
			store.ErrUnsupported, len(r.Charges), maxCharges)
	}
	if r.Group != "" {
		return owner{'g', r.Group}, nil
	}
	key := r.Charges[0].Key
	for i := range r.Charges {
		if r.Charges[i].Key != key {
			return owner{}, fmt.Errorf("kvstore: %w: charges for different keys are decided atomically only in a group; set a group, or "+
				"make one request per key", store.ErrUnsupported)
		}
	}
	return owner{'k', key}, nil
}

// entryName returns the name of an owner's entry in the engine.
func (s *Store) entryName(of owner) string {
	hashed := make([]byte, 0, 128) // on the stack unless the key is longer
	sum := sha256.Sum256(append(append(hashed, of.kind), of.name...))
	name := make([]byte, 0, 128)
	name = append(append(name, s.opts.Prefix...), '-')
	return string(hex.AppendEncode(name, sum[:s.hashBytes]))
}
