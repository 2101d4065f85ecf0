package rulings

import (
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

// ErrNotRead is wrapped by the error of a Book that has not read the stored rulings yet: there may be some that are not in force here.
var ErrNotRead = errors.New("the rulings have not been read from the store yet")

// Options configures a Book. The zero value is valid.
type Options struct {
	// Logger receives every change made through this Book, and when reading rulings begins to fail and works again; nil discards the log.
	// It receives no keys, only KeyHash of them.
	Logger *slog.Logger
}

// Follower applies the rulings of a Book.
type Follower struct {
	// Apply puts a table into force, in place of the one before. The Book calls it with its current table, and then with every new one, one
	// call at a time, before Add and Remove return.
	Apply func(*Table)
	// Check returns an error for a new ruling that cannot be applied, and fills in what depends on the policy: the normalized key. Known is
	// false if the policy is not the follower's. Followers of the same policy must fill in the same, or a new ruling is an error. It is also called with the kinds Clear and Reset, for which only policy and key matter.
	Check func(*Ruling) (known bool, err error)
}

// Book holds the rulings of all processes that share a store. It reads them every second, so that all of them apply a change made through
// any of them within two seconds. While they cannot be read, those read last stay in force. If the store has lost changes, because it was
// emptied or a replica took over, the Books that know them store them again. A Book is safe for concurrent use. The zero value is not
// usable; call Open.
type Book struct {
	documents store.Documents
	log       *slog.Logger
	opened    time.Time
	table     atomic.Pointer[Table]
	readAt    atomic.Int64 // time of the last read, in Unix microseconds; 0 before the first
	revision  atomic.Int64 // of document
	stop      context.CancelFunc
	stopped   sync.WaitGroup

	mu        sync.Mutex // held while the document is read or changed
	document  *document
	known     uint64 // the store's revision of the document
	failing   bool
	followers []*Follower
}

// Open returns the book of a store and reads it. It is not an error if the store does not answer: the rulings are read as soon as it
// does; see ReadAt. The error wraps store.ErrUnsupported if the store cannot keep documents, as memcached cannot. Call Close when done.
func Open(ctx context.Context, st store.Store, opts Options) (*Book, error) {
	documents, ok := store.As[store.Documents](st)
	if !ok {
		return nil, fmt.Errorf("rulings: %w: the store does not implement store.Documents", store.ErrUnsupported)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Book{documents: documents, log: opts.Logger, opened: time.Now(), document: &document{}}
	if err := b.Read(ctx); errors.Is(err, store.ErrUnsupported) {
		return nil, err
	}
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
			_ = b.Read(ctx) // logs its error
		}
	}
}

// Follow makes a follower apply the rulings until unfollow is called.
func (b *Book) Follow(f Follower) (unfollow func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	added := &f
	b.followers = append(b.followers, added)
	f.Apply(b.Table())
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.followers = slices.DeleteFunc(b.followers, func(f *Follower) bool { return f == added })
	}
}

// Table returns the rulings in force. It may contain rulings that have ended; Table.Find ignores them.
func (b *Book) Table() *Table { return b.table.Load() }

// List returns the rulings that are in force now, by policy and key. The error is ErrNotRead if they are not known yet.
func (b *Book) List() ([]Ruling, error) {
	if b.ReadAt().IsZero() {
		return nil, fmt.Errorf("rulings: %w", ErrNotRead)
	}
	return b.Table().InForce(time.Now()), nil
}

// ReadAt returns when the rulings were last read from the store. It is the zero time before the first read: then there may be rulings that
// are not in force here.
func (b *Book) ReadAt() time.Time {
	if at := b.readAt.Load(); at != 0 {
		return time.UnixMicro(at)
	}
	return time.Time{}
}

// Age returns how long ago the rulings were last read, or how long the Book has tried to.
func (b *Book) Age() time.Duration {
	if at := b.ReadAt(); !at.IsZero() {
		return time.Since(at)
	}
	return time.Since(b.opened)
}

// Revision returns the number of changes so far. It is the same in all processes that apply the same rulings.
func (b *Book) Revision() int64 { return b.revision.Load() }

// Read reads the stored rulings and puts them into force, if they have changed.
func (b *Book) Read(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.readLocked(limited)
	switch {
	case err != nil && !b.failing && ctx.Err() == nil:
		b.failing = true
		what := "rulings cannot be read; those read last stay in force"
		if b.readAt.Load() == 0 {
			what = "rulings not read: blocked clients may be admitted until they are"
		}
		b.log.Warn(what, slog.Any("error", err))
	case err == nil && b.failing:
		b.failing = false
		b.log.Info("rulings can be read again")
	}
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
	first := b.readAt.Load() == 0
	b.readAt.Store(time.Now().UnixMicro())
	b.known = revision
	if d == b.document && !first {
		return
	}
	b.document = d
	b.revision.Store(d.Revision)
	b.table.Store(NewTable(slices.Clone(d.Rulings)))
	for _, f := range b.followers {
		f.Apply(b.Table())
	}
}

// Add puts a ruling into force, in place of another about the same key: it is stored first, and in force here when Add returns. Who is
// required. It returns the ruling as stored, and the one that it replaces, nil if there was none. A FieldError says which field is
// invalid; after another error, the change may or may not have been made.
func (b *Book) Add(ctx context.Context, r Ruling) (added Ruling, replaced *Ruling, err error) {
	now := time.Now()
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

// Record adds to the log that the usage of a key was reset. It changes no ruling. The log has a hash of a key that no ruling can have.
func (b *Book) Record(ctx context.Context, policy, key, who, why string) error {
	r := Ruling{Policy: policy, Key: key, Kind: Reset, Who: who, Why: why}
	_ = b.resolve(&r) // what was reset exists
	if len(r.Key) > maxKey || !utf8.ValidString(r.Key) {
		r.Key = "sha256:" + KeyHash(r.Key)
	}
	_, err := b.change(ctx, &r, time.Now(), nil)
	return err
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
		known, err := f.Check(&one)
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
	written := strings.TrimPrefix(r.Key, "=")
	resolved := *r
	err := b.resolve(&resolved)
	r.Policy = resolved.Policy
	if err == nil {
		r.Key = resolved.Key
	}
	if table, now := b.Table(), time.Now(); table.Find(r.Policy, r.Key, now) == nil && table.Find(r.Policy, written, now) != nil {
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
		before = NewTable(current.Rulings).Find(change.Policy, change.Key, now)
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
	b.log.Info(what, slog.String("kind", string(change.Kind)), slog.String("policy", change.Policy), slog.String("key_sha256", KeyHash(change.Key)),
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
