package seen

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// How often things happen.
const (
	turnEvery = time.Second
	pollEvery = 2 // turns between those in which an instance that nobody looks at reads whether someone looks at another one
	lookLife  = 10 * time.Second
	lookEvery = 3 * time.Second         // how often an instance that someone looks at says so
	firstWait = 2500 * time.Millisecond // until every instance has read that someone looks, and has written what it has seen
	firstMost = 5 * time.Second         // the longest that a look waits for the others
	callLimit = 1500 * time.Millisecond
	goneFor   = 5 * time.Minute // an instance that is gone is still shown
	// quietReads is after how many reads without anything new an instance is gone. It writes every two seconds, and is read every second.
	quietReads = 7
)

// Options configures an Exchange. All but Documents are required.
type Options struct {
	// Documents is where the instances find what the others have seen; nil shows only this instance, for the reason Why.
	Documents store.Documents
	Why       string
	// Instance describes this instance, without the fields ID, Seen, Alive and LeasesOut.
	Instance func() Instance
	// Policies returns the policies in force: Name, Shadow, Limits and HoldsOut.
	Policies func() []Policy
	// LeasesOut returns the leased units that are not spent yet, by policy.
	LeasesOut func() map[string]int64
	// Peek returns the share of a key's limits that is used now, and which limit that is: nil if no limit decides about it. The error means
	// that the store did not say.
	Peek func(ctx context.Context, policy, key, plan string) (share float64, limit *slidegate.Limit, err error)
	// Secret returns the key that all instances share, which seals what they write, and from which the IDs of keys are made.
	Secret func(ctx context.Context) []byte
	// Now is the clock.
	Now func() time.Time
}

// Exchange shows what this instance and the others have seen. It writes to the store only while someone is looking: at this instance, that it
// is so; at another one, what this one has seen. It is safe for concurrent use. The zero value is not usable; call NewExchange.
type Exchange struct {
	record *Record
	opts   Options
	id     string
	wake   chan struct{} // receives when someone begins to look

	// Of Run.
	shared  shared
	wanted  time.Time // when another instance last said that someone looks at it
	said    time.Time // when this one last did
	written bool      // this instance's document has something

	mu      sync.Mutex
	looked  time.Time // when a person last looked at this instance
	began   time.Time // when they began, after a pause
	marked  bool      // the store says so
	ready   bool      // the others had the time to write
	sources map[string]*source
	why     string        // why other instances are not shown; empty if they are
	turned  chan struct{} // closed after the next turn
}

// NewExchange returns an Exchange. Call Run.
func NewExchange(record *Record, opts Options) *Exchange {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	id := hex.EncodeToString(random)
	return &Exchange{
		record: record, opts: opts, id: id, wake: make(chan struct{}, 1), shared: shared{documents: opts.Documents, id: id}, why: opts.Why,
		sources: map[string]*source{}, turned: make(chan struct{}),
	}
}

// Run keeps the time of the record, and writes and reads what was seen, until ctx ends.
func (e *Exchange) Run(ctx context.Context) {
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for turns := 0; ; turns++ {
		e.record.Tick()
		if e.opts.Documents != nil && (turns%pollEvery == 0 || e.looks(lookLife)) {
			e.setErr(e.turn(ctx))
		}
		e.mu.Lock()
		close(e.turned)
		e.turned = make(chan struct{})
		e.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-e.wake:
			turns = -1
			tick.Reset(turnEvery)
		}
	}
}

// Turned returns a channel that is closed when what the others have seen was read again, once a second: what is shown then is as new as it can
// be.
func (e *Exchange) Turned() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turned
}

// turn does what is due with the store.
func (e *Exchange) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := e.shared.load(ctx)
	if err == nil && e.looks(lookLife) {
		err = e.readOthers(ctx)
	}
	if e.shared.others {
		e.wanted, e.shared.others = e.opts.Now(), false
	}
	if err == nil {
		err = e.publish(ctx)
	}
	return err
}

// looks reports whether a person has looked at this instance within some time.
func (e *Exchange) looks(within time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.looked.IsZero() && e.opts.Now().Sub(e.looked) < within
}

// publish writes what this instance has seen while someone looks at another one, and then nothing in its place.
func (e *Exchange) publish(ctx context.Context) error {
	text := nothing
	if !e.wanted.IsZero() && e.opts.Now().Sub(e.wanted) < lookLife {
		text = encodeNote(e.own(ctx), e.opts.Secret(ctx))
		e.written = true
	} else if !e.written {
		return nil
	}
	err := e.shared.write(ctx, text)
	e.written = err != nil || len(text) > len(nothing)
	return err
}

// readOthers says that someone looks at this instance, and reads what the others have written.
func (e *Exchange) readOthers(ctx context.Context) error {
	e.mu.Lock()
	now, began, marked, looked, ready := e.opts.Now(), e.began, e.marked, e.looked, e.ready
	revisions := map[string]uint64{}
	for id, s := range e.sources {
		revisions[id] = s.revision
	}
	e.mu.Unlock()
	if !ready || now.Sub(e.said) >= lookEvery && now.Sub(looked) < lookEvery {
		if err := e.shared.mark(ctx, !marked); err != nil {
			return err
		}
		e.said = now
	}
	changes, err := e.shared.read(ctx, revisions)
	if err != nil {
		return err
	}
	secret, notes := e.opts.Secret(ctx), map[string]*note{}
	for _, c := range changes {
		if n, err := decodeNote(c.id, c.text, secret); err == nil {
			notes[c.id] = n
		}
	}
	for number, revision := range e.take(began, changes, notes) {
		_, _ = e.opts.Documents.SwapDocument(ctx, nameOf(number), nothing, revision) // unless it has written again
	}
	return nil
}

// take adds what was read since someone began to look. It returns the documents of instances that are gone, with their revisions.
func (e *Exchange) take(began time.Time, changes []change, notes map[string]*note) (gone map[int]uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.began.Equal(began) {
		return nil // someone has begun to look again meanwhile
	}
	now := e.opts.Now()
	gone = map[int]uint64{}
	for _, s := range e.sources {
		if s.quiet++; s.quiet == quietReads {
			gone[s.number] = s.revision
		}
	}
	for _, c := range changes {
		s := e.sources[c.id]
		if s == nil && len(e.sources) < 2*maxInstances {
			s = &source{seen: now}
			e.sources[c.id] = s
		}
		if s == nil {
			continue
		}
		s.number, s.revision = c.number, c.revision
		if n := notes[c.id]; len(c.text) > len(nothing) {
			if s.quiet, s.foreign = 0, n == nil; n != nil {
				s.note, s.seen = n, now
			}
		}
	}
	maps.DeleteFunc(e.sources, func(_ string, s *source) bool { return now.Sub(s.seen) > goneFor })
	e.marked, e.ready = true, now.Sub(e.began) >= firstWait
	return gone
}

// setErr remembers whether the other instances can be shown.
func (e *Exchange) setErr(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, store.ErrOutdated): // others were faster
		e.why = ""
	case errors.Is(err, store.ErrUnsupported):
		e.why = "the store keeps no documents for other instances, so each one shows only itself"
	default:
		e.why = "the store does not answer, so other instances cannot be seen"
	}
}

// Document returns what all instances have seen, with lists of at most n keys. After a pause it waits until they have noticed that
// someone is looking.
func (e *Exchange) Document(ctx context.Context, n int) *Document {
	e.look()
	e.await(ctx)
	return e.document(ctx, n)
}

// Glance is Document for those who look again and again: it does not wait, so that the other instances appear a little later.
func (e *Exchange) Glance(ctx context.Context, n int) *Document {
	e.look()
	return e.document(ctx, n)
}

// Ready reports whether the other instances have had the time to notice that someone is looking, so that Document does not wait.
func (e *Exchange) Ready() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opts.Documents == nil || e.why != "" || e.ready && e.opts.Now().Sub(e.looked) < lookLife
}

// look notes that someone is looking.
func (e *Exchange) look() {
	e.record.Tick()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.opts.Now()
	if now.Sub(e.looked) >= lookLife {
		e.began, e.marked, e.ready, e.sources = now, false, false, map[string]*source{}
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	e.looked = now
}

// await waits until all instances had the time to notice that someone is looking, and to write.
func (e *Exchange) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstMost)
	defer cancel()
	for !e.Ready() {
		select {
		case <-ctx.Done():
			return
		case <-e.Turned():
		}
	}
}

// document merges what this instance has seen with what the others have.
func (e *Exchange) document(ctx context.Context, n int) *Document {
	sources := []source{{note: e.own(ctx), seen: e.opts.Now()}}
	e.mu.Lock()
	why, foreign := e.why, 0
	for _, id := range slices.Sorted(maps.Keys(e.sources)) {
		switch s := e.sources[id]; {
		case why != "":
		case s.note != nil:
			sources = append(sources, *s)
		case s.foreign:
			foreign++
		}
	}
	e.mu.Unlock()
	d := merge(sources, e.opts.Secret(ctx), e.opts.Now(), n)
	if d.Scope, d.Why = "all", why; why != "" {
		d.Scope = "this"
	} else if foreign > 0 {
		d.Why = fmt.Sprintf("%d other instances cannot be read, since they have another key; set --reservation-key-file to the same file on all", foreign)
	}
	return d
}

// Key returns the text of a key, of which IsCut may be true: one that this instance has seen, or that another one lists.
func (e *Exchange) Key(ctx context.Context, policy, id string) (key string, ok bool) {
	if !isID(id) {
		return "", false
	}
	secret := e.opts.Secret(ctx)
	if p := e.record.find(policy); p != nil {
		if key, ok = p.findID(id, secret); ok {
			return key, ok
		}
	}
	e.look()
	e.await(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sources {
		if s.note == nil {
			continue
		}
		for _, k := range s.note.Keys {
			if s.note.Policies[k.Policy].Name == policy && idOf(secret, policy, string(k.Key)) == id {
				return string(k.Key), true
			}
		}
	}
	return "", false
}
