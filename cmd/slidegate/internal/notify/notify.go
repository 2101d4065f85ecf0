// Package notify makes an event of a key that reaches a threshold of its limit, at most once in a window over all instances, and delivers it
// at least once: to the log, to streams that operators have open, and to a webhook. Nothing waits for it: what cannot be handled in time
// is dropped and counted.
package notify

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

const (
	maxQueued    = 10_000          // crossings that are not claimed yet
	claimers     = 4               // claims at a time: decisions need the connections too
	claimTimeout = 5 * time.Second // of one attempt
	claimTries   = 4               // of a claim that was certainly not made
	maxKey       = 1 << 10         // bytes of a key in an event
	maxPolicies  = 1000            // that are counted separately, over all reloads
	maxLines     = 10              // of the log in any second
)

// Options configures a Notifier. Store is required.
type Options struct {
	// Store must have a Board.
	Store store.Store
	// Instance identifies this process in events.
	Instance string
	// Logger receives a line for each event, at most ten a second; nil discards them. KeyAttr is how a key is logged.
	Logger  *slog.Logger
	KeyAttr func(key string) slog.Attr
	// Webhook receives the events too; the zero value means none.
	Webhook Webhook
}

// Notifier makes events. It is safe for concurrent use. The zero value is not usable; call New, and Close.
type Notifier struct {
	opts    Options
	board   store.Board   // nil if the store has none
	queue   chan crossing // closed by Close
	pending atomic.Int64  // crossings that are in the queue or being claimed
	recent  recent
	stream  stream
	webhook *sender // nil without one
	claims  sync.WaitGroup
	stop    context.CancelFunc // drops what is not claimed yet
	sends   sync.WaitGroup
	cut     context.CancelFunc // ends the requests to the webhook

	lost lossCounts

	intake sync.RWMutex // held to send to queue
	ended  bool         // queue is closed

	mu     sync.Mutex
	made   map[madeName]int64
	lines  [maxLines]time.Time // of the last lines of the log; the oldest is at line
	line   int
	unsaid int64 // events without a line since the last one
}

// crossing is an event that has no ID yet, and the name under which it is claimed.
type crossing struct {
	event Event
	name  [sha256.Size]byte
	life  time.Duration
}

type madeName struct {
	policy  string
	percent int
}

// Why events were dropped.
const (
	lostQueue   = iota // too many had to be claimed
	lostStore          // the claim failed
	lostFull           // too many waited for the webhook
	lostExpired        // the webhook did not accept it in time
	lostStopped        // the process ended
	losses
)

var lossNames = [losses]string{"queue_full", "store", "webhook_full", "webhook_expired", "stopped"}

type lossCounts [losses]atomic.Int64

// New starts a Notifier.
func New(opts Options) *Notifier {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.KeyAttr == nil {
		opts.KeyAttr = func(string) slog.Attr { return slog.Attr{} }
	}
	n := &Notifier{opts: opts, queue: make(chan crossing, maxQueued), made: map[madeName]int64{}}
	n.board, _ = store.As[store.Board](opts.Store)
	claiming, stop := context.WithCancel(context.Background())
	sending, cut := context.WithCancel(context.Background())
	n.stop, n.cut = stop, cut
	if opts.Webhook.URL != "" {
		n.webhook = newSender(&opts.Webhook, opts.Logger, &n.lost)
		n.sends.Go(func() { n.webhook.run(sending) })
	}
	for range claimers {
		n.claims.Go(func() { n.claimAll(claiming) })
	}
	return n
}

// SetSecret signs what is sent to the webhook from now on with another secret. It reports whether it differs from the last one.
func (n *Notifier) SetSecret(secret []byte) (changed bool) {
	return !bytes.Equal(*n.webhook.secret.Swap(&secret), secret)
}

// Close makes the events of the crossings so far, gives what waits for the webhook another attempt, and stops. It drops what is left when
// ctx ends, and crossings that come later.
func (n *Notifier) Close(ctx context.Context) {
	n.intake.Lock()
	ended := n.ended
	if n.ended = true; !ended {
		close(n.queue)
	}
	n.intake.Unlock()
	if n.webhook != nil {
		n.webhook.hurry() // the store may take all of the time
	}
	release := context.AfterFunc(ctx, n.stop)
	n.claims.Wait()
	release()
	n.stop()
	if n.webhook != nil {
		n.webhook.finish(ctx)
	}
	n.cut()
	n.sends.Wait()
	if lost := n.lost[lostStopped].Load(); lost > 0 {
		n.opts.Logger.Warn("events were dropped, because the process ends", slog.Int64("events", lost))
	}
}

// Announce starts the counts of the thresholds of policies at 0: the first event is then an increase, not a new series.
func (n *Notifier) Announce(name string, thresholds []policy.Threshold) {
	for _, t := range thresholds {
		n.count(name, t.Percent, 0)
	}
}

func (n *Notifier) count(policy string, percent int, add int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := madeName{policy, percent}
	if _, known := n.made[name]; !known && len(n.made) >= maxPolicies {
		name.policy = "other"
	}
	n.made[name] += add
}

// Crossed makes an event of a crossing unless one was made in this window. It returns at once, and is for gate.Options.OnCrossed.
func (n *Notifier) Crossed(c gate.Crossing) {
	made := crossing{name: claimName(&c), life: lifeOf(&c)}
	if n.recent.has(made.name, time.Now()) {
		return
	}
	made.event = newEvent(&c, n.opts.Instance)
	n.intake.RLock()
	defer n.intake.RUnlock()
	if n.ended {
		n.lost[lostStopped].Add(1)
		return
	}
	n.pending.Add(1)
	select {
	case n.queue <- made:
	default:
		n.pending.Add(-1)
		n.lost[lostQueue].Add(1)
	}
}

// windowEnd returns when the window of a crossing ends, or false if windows of its limit slide, or if that does not show: where a window
// begins with a request, only what is left tells when, and that includes what reservations hold.
func windowEnd(c *gate.Crossing) (end rule.Micros, ok bool) {
	switch l := c.Limit.Rule(); {
	case l.Algorithm != rule.FixedWindow:
		return 0, false
	case l.Calendar != 0:
		_, end = l.Bounds(c.At)
		return end, true
	case l.Anchor == rule.AnchorClock:
		return c.At - c.At%l.Window + l.Window, true
	default: // a clock that was set back is before At, and more than a window from the end
		return c.At + min(rule.Micros(c.Reset.Microseconds()), l.Window), l.Hold == 0
	}
}

// claimName returns what makes two crossings the same event: the address and the threshold and, where its end shows, the window.
func claimName(c *gate.Crossing) (name [sha256.Size]byte) {
	text := []byte("slidegate notify 1 ")
	for _, part := range []string{c.Limit.Prefix(), c.Key, strconv.Itoa(c.Percent)} {
		text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
	}
	if end, ok := windowEnd(c); ok {
		text = binary.AppendVarint(text, int64(end))
	}
	return sha256.Sum256(text)
}

// lifeOf returns how long a crossing is one event: the rest of a window whose end shows, otherwise a whole one, or the time in which an
// empty bucket is full.
func lifeOf(c *gate.Crossing) time.Duration {
	l := c.Limit.Rule()
	life := l.Window
	switch end, ok := windowEnd(c); {
	case ok: // the window lasts longer if the clock was set back, and a name is not used again
		life = max(end-c.At, rule.Micros(c.Reset.Microseconds()))
	case l.Algorithm == rule.TokenBucket && l.Burst > l.Quota:
		life = rule.Micros(min(float64(l.Window)*float64(l.Burst)/float64(l.Quota), float64(rule.MaxWindow)))
	}
	return max(time.Millisecond, min(life, rule.MaxWindow).Duration())
}

// claimAll claims crossings until there will be no more. It drops those that are left when ctx ends.
func (n *Notifier) claimAll(ctx context.Context) {
	for c := range n.queue {
		if ctx.Err() == nil {
			n.handle(ctx, &c)
		} else {
			n.lost[lostStopped].Add(1)
		}
		n.pending.Add(-1)
	}
}

// handle makes the event of a crossing if no other instance has.
func (n *Notifier) handle(ctx context.Context, c *crossing) {
	began := time.Now() // of the claim, which begins later in the store
	switch first, err := n.claim(ctx, c); {
	case err != nil && ctx.Err() != nil:
		n.lost[lostStopped].Add(1)
	case err != nil:
		n.lost[lostStore].Add(1)
		n.opts.Logger.Debug("an event was dropped, because the store did not answer", slog.Any("error", err))
	case first:
		n.recent.add(c.name, began.Add(c.life))
		n.make(&c.event)
	default: // until when is not known
		n.recent.add(c.name, began.Add(min(c.life/16, time.Second)))
	}
}

var errNoBoard = errors.New("the store has no board")

// claim claims a crossing. It repeats only what was certainly not done: a second claim would not be the first one.
func (n *Notifier) claim(ctx context.Context, c *crossing) (first bool, err error) {
	if n.board == nil {
		return false, errNoBoard
	}
	for pause := 50 * time.Millisecond; ; pause *= 4 {
		within, cancel := context.WithTimeout(ctx, claimTimeout)
		first, err = n.board.Claim(within, string(c.name[:]), c.life)
		cancel()
		if !errors.Is(err, store.ErrUndone) || pause > 50*time.Millisecond<<(2*(claimTries-2)) {
			return first, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(pause):
		}
	}
}

// make delivers an event of which this process is the maker.
func (n *Notifier) make(e *Event) {
	e.ID = rand.Text()
	n.count(e.Data.Policy, e.Data.Percent, 1)
	n.log(e)
	body := e.encode()
	n.stream.publish(e.ID, body)
	if n.webhook != nil {
		n.webhook.add(e.ID, body)
	}
}

// log writes a line for an event, unless there were too many in the last second.
func (n *Notifier) log(e *Event) {
	now := time.Now()
	n.mu.Lock()
	if now.Sub(n.lines[n.line]) < time.Second {
		n.unsaid++
		n.mu.Unlock()
		return
	}
	unsaid := n.unsaid
	n.lines[n.line], n.line, n.unsaid = now, (n.line+1)%maxLines, 0
	n.mu.Unlock()
	n.opts.Logger.Info("near a limit", slog.String("policy", e.Data.Policy), n.opts.KeyAttr(e.Data.Key), slog.String("limit", e.Data.Limit),
		slog.Int("percent", e.Data.Percent), slog.Int64("used", e.Data.Used), slog.Int64("of", e.Data.Of), slog.Bool("shadow", e.Data.Shadow),
		slog.String("event", e.ID), slog.Int64("left_out", unsaid))
}
