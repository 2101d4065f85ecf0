package seen

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// The topics of notes.
const (
	topicLook = "look" // while someone is looking; the author is the instance that was asked
	topicSeen = "seen" // what an instance has seen
	topicHour = "hour" // the counts of its whole hour; the authors are its ID with a number
	topicKey  = "key"  // keys that a person asked for
)

// How long notes are valid, and how often things happen.
const (
	turnEvery = time.Second
	lookLife  = 10 * time.Second
	lookEvery = 3 * time.Second // a mark that has not changed is posted again
	noteLife  = 5 * time.Second
	hourLife  = 10 * time.Second
	aliveFor  = 5 * time.Second
	goneFor   = 5 * time.Minute         // an instance that is gone is still shown
	firstWait = 1600 * time.Millisecond // until every instance has seen the mark and posted
	askWait   = 3 * time.Second
	askEvery  = 200 * time.Millisecond
	callLimit = 800 * time.Millisecond
)

// Options configures an Exchange. All but Board are required.
type Options struct {
	// Board is where the instances find one another's notes; nil shows only this instance, for the reason Why.
	Board store.Board
	Why   string
	// Instance describes this instance, without the fields ID, Seen, Alive and LeasesOut.
	Instance func() Instance
	// Policies returns the policies in force: Name, Shadow, Limits and HoldsOut.
	Policies func() []Policy
	// LeasesOut returns the leased units that are not spent yet, by policy.
	LeasesOut func() map[string]int64
	// Peek returns the share of a key's limits that is used now, and which limit that is: nil if no limit decides about it. The error means
	// that the store did not say.
	Peek func(ctx context.Context, policy, key, plan string) (share float64, limit *slidegate.Limit, err error)
	// Secret returns the key that all instances share, from which the IDs of keys are made.
	Secret func(ctx context.Context) []byte
	// Now is the clock.
	Now func() time.Time
}

// Exchange shows what this instance and the others have seen. It writes to the store only while someone is looking: at this instance, a mark;
// at another one, what this one has seen. It is safe for concurrent use. The zero value is not usable; call NewExchange.
type Exchange struct {
	record *Record
	opts   Options
	id     string
	turns  atomic.Int64

	mu      sync.Mutex
	secret  secret
	looked  time.Time // when a person last looked at this instance
	began   time.Time // when they began, after a pause
	ready   bool      // the first notes have been read since then
	posted  time.Time // when the mark was last posted
	changed bool      // what it says has changed since
	marked  int64     // its Turn
	shown   []keyName // the keys that are shown
	asks    map[keyName]int
	sources map[string]*source           // of the others, by their IDs
	taken   map[string][sha256.Size]byte // the notes that sources has, by topic and author
	lost    time.Time                    // when the store ceased to answer; zero if it does
	known   map[string]bool              // the instances whose marks were there at the last turn
	why     string                       // why other instances are not shown; empty if they are
	turned  chan struct{}                // closed after the next turn
}

// secret makes IDs; another generation makes others.
type secret struct {
	key        []byte
	generation uint64
}

// NewExchange returns an Exchange. Call Run.
func NewExchange(record *Record, opts Options) *Exchange {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	return &Exchange{
		record: record, opts: opts, id: hex.EncodeToString(id), why: opts.Why, asks: map[keyName]int{}, sources: map[string]*source{},
		taken: map[string][sha256.Size]byte{}, turned: make(chan struct{}),
	}
}

// Run keeps the time of the record, and posts and reads notes, until ctx ends.
func (e *Exchange) Run(ctx context.Context) {
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for {
		e.record.Tick()
		if e.opts.Board != nil {
			e.turn(ctx)
		}
		e.mu.Lock()
		close(e.turned)
		e.turned = make(chan struct{})
		e.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
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

// turn does what is due once a second.
func (e *Exchange) turn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	marks, err := e.opts.Board.Notes(ctx, topicLook)
	e.setErr(err)
	if err != nil {
		return
	}
	delete(marks, e.id)
	e.publish(ctx, marks)
	if e.looks() {
		e.mark(ctx)
		e.read(ctx)
	}
}

// setErr remembers whether the other instances can be shown.
func (e *Exchange) setErr(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		if e.why = ""; !e.lost.IsZero() {
			e.forgiveLocked()
		}
	case errors.Is(err, store.ErrUnsupported):
		e.why = "the store keeps no notes for other instances, so each one shows only itself"
	default:
		if e.why = "the store does not answer, so other instances cannot be seen"; e.lost.IsZero() {
			e.lost = e.opts.Now()
		}
	}
}

// forgiveLocked keeps instances that were there when the store ceased to answer from being shown as gone before they can have been heard again.
func (e *Exchange) forgiveLocked() {
	for _, s := range e.sources {
		if s.alive(e.lost) {
			s.forgiven = e.opts.Now()
		}
	}
	e.lost = time.Time{}
}

// publish posts what this instance has seen, if the marks of others say that someone is looking.
func (e *Exchange) publish(ctx context.Context, marks map[string][]byte) {
	var wanted, asks []keyName
	isNew, turns := false, map[string]int64{}
	for author, text := range marks {
		l := decodeLook(text)
		wanted, asks = append(wanted, l.Keys...), append(asks, l.Asks...)
		turns[author] = l.Turn
		isNew = isNew || !e.known[author]
	}
	e.known = map[string]bool{}
	for author := range marks {
		e.known[author] = true
	}
	if len(marks) == 0 {
		return
	}
	now := e.record.minute.Load()
	if isNew {
		for i, text := range encodeHour(&note{Instance: Instance{Name: "hour"}, Policies: e.policies(now-hour, now)}) {
			_ = e.opts.Board.Post(ctx, topicHour, fmt.Sprintf("%s-%d", e.id, i), text, hourLife) // the next minutes come with the other notes
		}
	}
	n := e.own(ctx, now-2, wanted[:min(len(wanted), maxLookKeys)])
	n.Marks = turns
	if text, err := encodeNote(n); err == nil {
		e.setErr(e.opts.Board.Post(ctx, topicSeen, e.id, text, noteLife))
	}
	e.answer(ctx, asks[:min(len(asks), maxAsks)])
}

// secretNow returns the secret for IDs.
func (e *Exchange) secretNow(ctx context.Context) secret {
	key := e.opts.Secret(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if string(key) != string(e.secret.key) {
		e.secret = secret{key, e.secret.generation + 1}
	}
	return e.secret
}

// looks reports whether a person looks at this instance.
func (e *Exchange) looks() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.looked.IsZero() && e.opts.Now().Sub(e.looked) < lookLife || len(e.asks) > 0
}

// mark posts that someone is looking, if that was not done just before, or if what they look at has changed.
func (e *Exchange) mark(ctx context.Context) {
	e.mu.Lock()
	now := e.opts.Now()
	due := e.changed || now.Sub(e.posted) >= lookEvery && now.Sub(e.looked) < lookEvery
	life := lookLife
	if now.Sub(e.looked) >= lookLife {
		life = askWait // only a key was asked for
	}
	l := look{Keys: e.shown, Asks: slices.Collect(maps.Keys(e.asks))}
	if due {
		e.posted, e.changed = now, false
		e.marked++
		l.Turn = e.marked
	}
	e.mu.Unlock()
	if !due {
		return
	}
	text, err := encode(&l)
	if err == nil {
		err = e.opts.Board.Post(ctx, topicLook, e.id, text, life)
	}
	e.setErr(err)
}

// read reads the notes of the others.
func (e *Exchange) read(ctx context.Context) {
	hours, err := e.opts.Board.Notes(ctx, topicHour)
	var notes map[string][]byte
	if err == nil {
		notes, err = e.opts.Board.Notes(ctx, topicSeen)
	}
	e.setErr(err)
	now := e.opts.Now()
	delete(notes, e.id)
	e.take(topicSeen, notes, now)
	e.take(topicHour, hours, now)
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, s := range e.sources {
		if now.Sub(s.seen) > goneFor {
			delete(e.sources, id)
		}
	}
}

// take adds the notes of a topic that have changed. It decodes them without the lock, since anyone who may write to the store can make that slow.
func (e *Exchange) take(topic string, texts map[string][]byte, now time.Time) {
	for author, text := range texts {
		id, _, _ := strings.Cut(author, "-")
		name, sum := topic+" "+author, sha256.Sum256(text)
		e.mu.Lock()
		known := e.taken[name] == sum || topic == topicHour && e.sources[id] == nil // that one is taken later
		e.mu.Unlock()
		if known {
			continue
		}
		n, err := decodeNote(author, text, now)
		e.mu.Lock()
		e.taken[name] = sum
		if err == nil {
			e.addLocked(topic, id, n, now)
		}
		e.mu.Unlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.taken, func(name string, _ [sha256.Size]byte) bool {
		author, of := strings.CutPrefix(name, topic+" ")
		return of && texts[author] == nil
	})
}

// addLocked adds a note of another instance.
func (e *Exchange) addLocked(topic, author string, n *note, now time.Time) {
	s := e.sources[author]
	switch {
	case topic == topicHour:
		if s != nil {
			s.keep(n, minuteOf(now))
		}
		return
	case s == nil && len(e.sources) >= store.MaxNotes:
		return
	case s == nil:
		s = &source{}
		e.sources[author] = s
	case s.note.Turn == n.Turn:
		return // seen before
	}
	s.note, s.seen = n, now
	s.keep(n, minuteOf(now))
}

// Document returns what all instances have seen, with lists of at most n keys. After a pause it waits until they have noticed that
// someone is looking.
func (e *Exchange) Document(ctx context.Context, n int) *Document {
	if e.look(ctx) {
		e.awaitOthers(ctx)
	}
	d := e.document(ctx, n)
	unsure, first := e.show(d)
	if first {
		e.markOnce(ctx)
		e.awaitAnswers(ctx)
	}
	if unsure { // this instance may know the keys that others have listed, too
		d = e.document(ctx, n)
	}
	return d
}

// Ready reports whether the other instances have had the time to notice that someone is looking, so that Document does not wait.
func (e *Exchange) Ready() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opts.Board == nil || e.why != "" || e.ready && e.opts.Now().Sub(e.looked) < lookLife
}

// Glance is Document for those who look again and again: it does not wait, so that the other instances appear a little later.
func (e *Exchange) Glance(ctx context.Context, n int) *Document {
	e.look(ctx)
	d := e.document(ctx, n)
	if unsure, _ := e.show(d); unsure {
		d = e.document(ctx, n)
	}
	return d
}

// awaitAnswers waits until all instances have read the last mark: then they have said what they know of the keys that are shown.
func (e *Exchange) awaitAnswers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	for e.pause(ctx, askEvery) {
		if e.readOnce(ctx); e.haveAnswered() {
			return
		}
	}
}

func (e *Exchange) haveAnswered() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sources {
		if s.note.Marks[e.id] < e.marked && s.alive(e.opts.Now()) {
			return false
		}
	}
	return true
}

// look notes that someone is looking, and reports whether there are others that may not know it yet.
func (e *Exchange) look(ctx context.Context) (others bool) {
	e.record.Tick()
	if e.opts.Board == nil {
		return false
	}
	e.mu.Lock()
	now := e.opts.Now()
	first := now.Sub(e.looked) >= lookLife
	if first {
		e.began, e.ready, e.changed, e.sources, e.shown = now, false, true, map[string]*source{}, nil
		clear(e.taken)
	}
	e.looked = now
	ready := e.ready
	e.mu.Unlock()
	if first {
		e.markOnce(ctx)
	}
	return !ready && e.reason() == ""
}

// awaitOthers waits until all instances had the time to see the mark and to post.
func (e *Exchange) awaitOthers(ctx context.Context) {
	e.mu.Lock()
	wait := e.began.Add(firstWait).Sub(e.opts.Now())
	e.mu.Unlock()
	if e.pause(ctx, wait) {
		e.readOnce(ctx)
	}
}

func (e *Exchange) markOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	e.mark(ctx)
}

func (e *Exchange) readOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	e.read(ctx)
}

// pause waits, and reports whether ctx has not ended.
func (e *Exchange) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (e *Exchange) reason() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// document merges what this instance has seen with what the others have.
func (e *Exchange) document(ctx context.Context, n int) *Document {
	e.mu.Lock()
	shown := e.shown
	e.mu.Unlock()
	own := e.own(ctx, e.record.minute.Load()-hour, shown)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.opts.Now()
	self := &source{note: own, seen: now}
	self.keep(own, minuteOf(now))
	sources := []*source{self}
	for _, id := range slices.Sorted(maps.Keys(e.sources)) {
		if e.why == "" {
			sources = append(sources, e.sources[id])
		}
	}
	d := merge(sources, now, n)
	d.Scope, d.Why = "all", e.why
	if e.why != "" {
		d.Scope = "this"
	}
	return d
}

// show remembers the keys that are shown. It reports whether some of their counts may be too low, and whether that is for the first time
// since someone is looking, so that the other instances do not know yet which keys are shown.
func (e *Exchange) show(d *Document) (unsure, first bool) {
	var shown []keyName
	known := map[keyName]bool{}
	for _, lists := range d.Keys {
		for _, k := range slices.Concat(lists.Refused, lists.Nearest) {
			name := keyName{k.Policy, k.ID}
			if !known[name] && len(shown) < maxLookKeys {
				known[name], shown = true, append(shown, name)
			}
			unsure = unsure || k.AtLeast
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if first = unsure && !e.ready && e.why == "" && len(e.sources) > 0; first {
		e.changed = true
	}
	e.shown = shown
	e.ready = e.ready || e.opts.Now().Sub(e.began) >= firstWait
	return unsure, first
}
