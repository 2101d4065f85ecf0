// Package rulings keeps what operators decide about single keys while a program runs: to block a key, or to give it other limits, until a
// time. A Book keeps them in the store beside the counts, with a log of all changes, so that all processes that share the store apply
// them and they survive restarts. Middleware follows a Book: see Follow of httplimit.Middleware and grpclimit.Interceptors.
//
// All of it is one document, replaced by compare-and-swap, of which every process reads the revision once a second: messages of a store
// (SUBSCRIBE, LISTEN) are lost silently when their connection breaks.
package rulings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/store"
)

const (
	readEvery   = time.Second // so that all processes apply a change within two seconds
	readTimeout = time.Second
	// changeTimeout is how long the store may take to make a change or to return the log.
	changeTimeout = 5 * time.Second
	attempts      = 64        // at a change that conflicts with those of other processes
	keepEnded     = time.Hour // how long ended rulings are kept, since the clocks of processes may differ
)

// ErrNone is wrapped by the error of a change that ends a ruling that does not exist.
var ErrNone = errors.New("there is no ruling about this key")

// Options configures a Book. The zero value is valid.
type Options struct {
	// Logger receives every change made through this Book, and when reading rulings begins to fail and works again; nil discards the log.
	// It receives hashes of keys, and no keys.
	Logger *slog.Logger
}

// Book holds the rulings of all processes that share a store. It reads them every second, so that all of them apply a change made through
// any of them within two seconds. While they cannot be read, those read last stay in force. If the store has lost changes, because it was
// emptied or a replica took over, the Books that know them store them again. A Book is safe for concurrent use. The zero value is not
// usable; call Open.
type Book struct {
	documents store.Documents
	log       *slog.Logger
	current   atomic.Pointer[state]
	stop      context.CancelFunc
	stopped   sync.WaitGroup

	mu        sync.Mutex // held while the document is read or changed
	document  *document  // the same as current's
	known     uint64     // the store's revision of the document
	failing   error      // why the last read failed; nil if it did not
	followers []*follower
}

// state is a document and when it was last read; nil before the first read.
type state struct {
	*document
	readAt time.Time
}

// follower is what Follow was called with.
type follower struct {
	apply func(all []Ruling) error
	check func(*Ruling) (known bool, err error)
}

// Open returns the book of a store and reads it. It is not an error if the store does not answer: the rulings are read as soon as it
// does; see List. The error wraps store.ErrUnsupported if the store does not implement store.Documents. Call Close when done.
func Open(ctx context.Context, st store.Store, opts Options) (*Book, error) {
	documents, ok := store.As[store.Documents](st)
	if !ok {
		return nil, fmt.Errorf("rulings: %w: the store does not implement store.Documents", store.ErrUnsupported)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Book{documents: documents, log: opts.Logger, document: &document{}}
	_ = b.read(ctx) // logs its error
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.stopped.Go(func() { b.readRegularly(running) })
	return b, nil
}

// Close stops reading. The followers keep the rulings that they have.
func (b *Book) Close() {
	b.stop()
	b.stopped.Wait()
}

func (b *Book) readRegularly(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = b.read(ctx) // logs its error
		}
	}
}

// Follow applies the rulings until unfollow is called.
//
// Apply puts rulings into force, in place of those before. The Book calls it with the current ones, and then with every new list, one call
// at a time, before Add and Remove return. Some of them may have ended; apply must not
// change the list. The Book logs the error: which rulings apply has left out.
//
// Check returns an error for a new ruling that cannot be applied, and fills in what depends on the policy: the normalized key. Known is
// false if the policy is not the follower's. Followers of the same policy must fill in the same, or a new ruling is an error. It is also
// called with the kinds Clear and Reset, for which only policy and key matter.
func (b *Book) Follow(apply func(all []Ruling) error, check func(*Ruling) (known bool, err error)) (unfollow func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	added := &follower{apply, check}
	b.followers = append(b.followers, added)
	b.applyLocked(added)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.followers = slices.DeleteFunc(b.followers, func(f *follower) bool { return f == added })
	}
}

func (b *Book) applyLocked(f *follower) {
	if err := f.apply(b.document.Rulings); err != nil {
		b.log.Error("rulings cannot be applied; end them or change them", slog.Any("error", err))
	}
}

// List returns the rulings that are in force now, by policy and key. It is an error if they have not been read from the store yet.
func (b *Book) List() ([]Ruling, error) {
	current := b.current.Load()
	if current == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return nil, fmt.Errorf("rulings: not read from the store yet: %w", b.failing)
	}
	now := time.Now()
	found := slices.DeleteFunc(slices.Clone(current.Rulings), func(r Ruling) bool { return !r.inForce(now) })
	slices.SortFunc(found, func(x, y Ruling) int { return cmp.Or(cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Key, y.Key)) })
	return found, nil
}

// State returns the number of changes so far, which is the same in all processes that apply the same rulings, and when the rulings were last
// read from the store. Before the first read both are zero: there may be rulings that are not in force here.
func (b *Book) State() (revision int64, readAt time.Time) {
	if current := b.current.Load(); current != nil {
		return current.Revision, current.readAt
	}
	return 0, time.Time{}
}

// read reads the stored rulings and puts them into force, if they have changed.
func (b *Book) read(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.readLocked(limited)
	switch {
	case err != nil && b.failing == nil && ctx.Err() == nil:
		what := "rulings cannot be read; those read last stay in force"
		if b.current.Load() == nil {
			what = "rulings not read: blocked clients may be admitted until they are"
		}
		b.log.Warn(what, slog.Any("error", err))
	case err == nil && b.failing != nil:
		b.log.Info("rulings can be read again")
	}
	b.failing = err
	return err
}

// readLocked takes over the stored document. If the store has lost changes, it stores them again.
func (b *Book) readLocked(ctx context.Context) error {
	for range attempts {
		current, revision, lost, err := b.loadLocked(ctx)
		if err != nil {
			return err
		}
		if !lost {
			b.putLocked(current, revision)
			return nil
		}
		err = b.storeLocked(ctx, current, revision)
		if err == nil {
			b.log.Warn("the store had lost changes of rulings; they were stored again", slog.Int("rulings", len(current.Rulings)), slog.Int64("revision", current.Revision))
		}
		if !errors.Is(err, store.ErrOutdated) {
			return err
		}
	}
	return fmt.Errorf("rulings: %w", store.ErrOutdated)
}

// loadLocked returns the stored document, merged with this Book's if the store has lost some of its changes.
func (b *Book) loadLocked(ctx context.Context) (current *document, revision uint64, lost bool, err error) {
	text, revision, err := b.documents.LoadDocument(ctx, documentName, b.known)
	if err != nil {
		return nil, 0, false, fmt.Errorf("rulings: %w", err)
	}
	if revision == b.known && (revision != 0 || b.document.Revision == 0) {
		return b.document, revision, false, nil
	}
	current = &document{}
	if revision != 0 {
		if current, err = decode(text); err != nil {
			return nil, 0, false, fmt.Errorf("rulings: %w", err)
		}
	}
	if !current.includes(b.document) {
		return merge(current, b.document), revision, true, nil
	}
	return current, revision, false, nil
}

// storeLocked replaces the stored document and puts the new one into force.
func (b *Book) storeLocked(ctx context.Context, next *document, revision uint64) error {
	text, err := next.encode()
	if err != nil {
		return err
	}
	if revision, err = b.documents.SwapDocument(ctx, documentName, text, revision); err != nil {
		return fmt.Errorf("rulings: %w", err)
	}
	b.putLocked(next, revision)
	return nil
}

// putLocked puts a document into force.
func (b *Book) putLocked(d *document, revision uint64) {
	changed := d != b.document || b.current.Load() == nil
	b.document, b.known = d, revision
	b.current.Store(&state{d, time.Now()})
	if !changed {
		return
	}
	for _, f := range b.followers {
		b.applyLocked(f)
	}
}

// Add puts a ruling into force, in place of another about the same key: it is stored first, and in force here when Add returns. Who is
// required. It returns the ruling as stored, and the one that it replaces, nil if there was none. A FieldError says which field is
// invalid; after another error, the change may or may not have been made.
//
// The kind Reset changes no ruling: it adds to the log that the usage of a key was reset. The log has a hash of a key that no ruling can
// have.
func (b *Book) Add(ctx context.Context, r Ruling) (added Ruling, replaced *Ruling, err error) {
	now := time.Now()
	if r.Kind == Reset {
		_ = b.resolve(&r) // what was reset exists
		if len(r.Key) > maxKey || !utf8.ValidString(r.Key) {
			r.Key = "sha256:" + errtext.HashKey(r.Key)
		}
		_, err = b.change(ctx, &r, now, nil)
		return r, nil, err
	}
	if err := r.check(now); err != nil {
		return r, nil, err
	}
	if err := b.resolve(&r); err != nil {
		return r, nil, err
	}
	if !r.Until.IsZero() {
		r.Until = r.Until.UTC().Round(time.Microsecond)
	}
	replaced, err = b.change(ctx, &r, now, nil)
	return r, replaced, err
}

// Remove ends the ruling about a key, if it has one of the given kinds; none means any. The Who and Why of the argument are logged. It
// returns the ruling that was in force. The error wraps ErrNone if there was none, and is a FieldError if it has another kind.
func (b *Book) Remove(ctx context.Context, r Ruling, kinds ...Kind) (removed *Ruling, err error) {
	r.Kind, r.Limits, r.Until = Clear, nil, time.Time{}
	if err := r.checkNames(); err != nil {
		return nil, err
	}
	b.resolveStored(&r)
	return b.change(ctx, &r, time.Now(), func(found *Ruling) error {
		switch {
		case found == nil:
			return fmt.Errorf("rulings: %w", ErrNone)
		case len(kinds) > 0 && !slices.Contains(kinds, found.Kind):
			return fieldError("kind", "the ruling about this key is not %s but %s", strings.Trim(fmt.Sprint(kinds), "[]"), found.Kind)
		}
		return nil
	})
}

// resolve has the followers of the ruling's policy check it. All of them must be able to apply it under one key. On an error, only the
// policy is filled in.
func (b *Book) resolve(r *Ruling) error {
	b.mu.Lock()
	followers := slices.Clone(b.followers)
	b.mu.Unlock()
	var first *Ruling
	for _, f := range followers {
		one := *r
		one.Limits = slices.Clone(r.Limits)
		known, err := f.check(&one)
		if known {
			r.Policy = one.Policy
		}
		switch {
		case err != nil:
			return err
		case !known:
		case first == nil:
			first = &one
		case one.Key != first.Key:
			return fieldError("key", "means different keys where the policy %q is followed more than once, since their keys have different forms; give the policies different names", r.Policy)
		case !slices.Equal(one.Limits, first.Limits):
			return fieldError("limits", "mean different limits where the policy %q is followed more than once; give the policies different names", r.Policy)
		}
	}
	switch {
	case first != nil:
		*r = *first
	case len(followers) > 0:
		return fieldError("policy", "no policy is called %q", r.Policy)
	}
	return nil
}

// resolveStored fills in the policy and the key of a ruling that is to end. If there is none under the key that the text means now, it may
// be one from before the form of the keys changed: it has the key that a list of rulings prints.
func (b *Book) resolveStored(r *Ruling) {
	written := r.Key
	resolved := *r
	err := b.resolve(&resolved)
	r.Policy = resolved.Policy
	if err == nil {
		r.Key = resolved.Key
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.document.find(r.Policy, r.Key, now) == nil && b.document.find(r.Policy, written, now) != nil {
		r.Key = written
	}
}

// change stores a change and puts it into force. It returns the ruling that was in force before; allowed rejects a change by it, and may
// be nil.
func (b *Book) change(ctx context.Context, change *Ruling, now time.Time, allowed func(before *Ruling) error) (before *Ruling, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	change.At = now.UTC().Round(time.Microsecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	for range attempts {
		var current *document
		var revision uint64
		if current, revision, _, err = b.loadLocked(ctx); err != nil {
			return nil, err
		}
		before = current.find(change.Policy, change.Key, now)
		if allowed != nil {
			if err := allowed(before); err != nil {
				return nil, err
			}
		}
		err = b.storeLocked(ctx, current.with(*change, now.Add(-keepEnded)), revision)
		if errors.Is(err, ErrFull) {
			err = b.storeLocked(ctx, current.with(*change, now), revision)
		}
		if !errors.Is(err, store.ErrOutdated) {
			break
		}
	}
	if err == nil {
		b.logChange(change)
	}
	return before, err
}

func (b *Book) logChange(change *Ruling) {
	until := "" // it never ends
	if !change.Until.IsZero() {
		until = change.Until.Format(time.RFC3339)
	}
	what := "ruling changed"
	if change.Kind == Reset {
		what = "usage reset"
	}
	b.log.Info(what, slog.String("kind", string(change.Kind)), slog.String("policy", change.Policy), slog.String("key_sha256", errtext.HashKey(change.Key)),
		slog.String("who", change.Who), slog.String("why", change.Why), slog.String("until", until))
}

// Log returns the last n changes, newest first, as the store has them.
func (b *Book) Log(ctx context.Context, n int) ([]Ruling, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.readLocked(ctx); err != nil {
		return nil, err
	}
	last := slices.Clone(b.document.Log[max(0, len(b.document.Log)-n):])
	slices.Reverse(last)
	return last, nil
}
