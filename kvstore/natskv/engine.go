package natskv

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/internal/serverclock"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
)

// Engine is a kvstore.Engine over a JetStream bucket. It is safe for concurrent use. The zero value is not usable; call New, and
// Close after the last use. Close does not close the connection.
type Engine struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	opts    Options
	subject string // of all entries, with a dot at its end
	pulse   *pulse // nil without replicas
	link    *link
	clock   *serverclock.Clock

	clockName, checkName string // of messages that this process writes for itself

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// New creates the bucket, or uses the existing one, and reads the server's clock. After that the engine survives every outage:
// its methods fail while the servers cannot be reached, and work again afterwards.
func New(ctx context.Context, conn *nats.Conn, opts Options) (*Engine, error) {
	if conn == nil {
		return nil, errors.New("natskv: conn: must not be nil; create one with nats.Connect")
	}
	if opts.Bucket == "" {
		opts.Bucket = "slidegate"
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("natskv: %w", err)
	}
	own := cryptorand.Text()
	e := &Engine{
		conn: conn, js: js, opts: opts, subject: "$KV." + opts.Bucket + ".", link: newLink(), clockName: "clock-" + own, checkName: "check-" + own,
	}
	if e.stream, err = opts.openStream(ctx, js); err != nil {
		return nil, fault(err, true)
	}
	if info := e.stream.CachedInfo(); info.Config.Replicas > 1 {
		e.pulse = newPulse(leaderAge(info))
	}
	if e.clock, err = serverclock.Start(ctx, e.readClock); err != nil {
		return nil, fmt.Errorf("natskv: the server's clock: %w", fault(err, true))
	}
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.ended.Go(func() { e.link.watch(ctx, conn) })
	if e.pulse != nil {
		e.ended.Go(func() { e.keepPulse(ctx) })
	}
	return e, nil
}

// leaderAge returns how long a stream has had its current leader. A new stream cannot have had another one.
func leaderAge(info *jetstream.StreamInfo) time.Duration {
	if info.Cluster == nil || info.Cluster.LeaderSince == nil || info.TimeStamp.Sub(info.Created) < oldLeaderTime {
		return oldLeaderTime
	}
	return info.TimeStamp.Sub(*info.Cluster.LeaderSince)
}

// keepPulse writes a message whenever nothing else has been written for a while.
func (e *Engine) keepPulse(ctx context.Context) {
	for timer := time.NewTimer(beatEvery); ; timer.Reset(max(e.pulse.due(), beatEvery/4)) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if e.pulse.due() > 0 {
			continue
		}
		within, cancel := context.WithTimeout(ctx, beatEvery)
		_, _ = e.write(within, e.message(e.checkName, nil, ownTTL)) // if it fails, reads are confirmed
		cancel()
	}
}

// Close stops the engine's background work. The engine must not be used afterwards.
func (e *Engine) Close() {
	e.cancel()
	e.ended.Wait()
	e.clock.Stop()
}

// Now returns the time by the clock of the stream's leader.
func (e *Engine) Now() rule.Micros { return e.clock.Now() }

// headerBytes is reserved for the headers of a message, which count toward the server's limit on its size.
const headerBytes = 256

// Traits reports what JetStream can do. The server limits the size of a message, to a megabyte unless it is configured otherwise.
func (e *Engine) Traits() kvstore.Traits {
	all := traits
	all.MaxValue, all.Skew = int(e.js.Conn().MaxPayload())-headerBytes, 2*e.clock.Error()
	return all
}

// errOffline is returned while there is no connection. The client might otherwise keep a request and send it much later.
var errOffline = errors.New("not connected to a NATS server")

// Get returns the value of a name as the leader of the stream has it.
func (e *Engine) Get(ctx context.Context, name string) (value []byte, revision uint64, err error) {
	var msg *jetstream.RawStreamMsg
	steady := e.steady()
	if steady {
		msg, err = e.readOrNone(ctx, name)
	}
	if err == nil && !(steady && e.steady()) {
		msg, err = e.readConfirmed(ctx, name)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("natskv: %w", fault(err, true))
	}
	return msg.Data, msg.Sequence, nil
}

// steady reports whether there is only one leader, so that its answers can be trusted.
func (e *Engine) steady() bool { return e.pulse == nil || e.pulse.steady(e.conn.ConnectedServerId()) }

// readOrNone is like read, but returns an empty message if the name has none.
func (e *Engine) readOrNone(ctx context.Context, name string) (*jetstream.RawStreamMsg, error) {
	msg, err := e.read(ctx, name)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &jetstream.RawStreamMsg{}, nil
	}
	return msg, err
}

// read requests the last message of a name from the leader. It repeats the request if there is no response, since a server that has
// just handed over its leadership drops requests.
func (e *Engine) read(ctx context.Context, name string) (msg *jetstream.RawStreamMsg, err error) {
	for patience := firstPatience; ; patience *= 2 {
		msg, err = untilAccepted(ctx, e.conn.IsConnected, func() (*jetstream.RawStreamMsg, error) {
			once, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return during(once, e.link, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
				return e.stream.GetLastMsgForSubject(ctx, e.subject+name)
			})
		})
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || patience > lastPatience {
			return msg, err
		}
	}
}

// Swap writes a value if the last message of the name still has the given sequence number. An error that does not wrap
// kvstore.ErrOutdated does not say whether the value was written, unless it wraps store.ErrUndone.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	msg := e.message(name, value, keep)
	expect(msg, revision)
	steady := e.steady()
	if !steady {
		msg.Header.Set(swapHeader, cryptorand.Text())
	}
	ack, err := e.write(ctx, msg)
	switch {
	case err == nil:
		return ack.Sequence, nil
	case !isConflict(err):
		stored := codeOf(err) == codeStoreFailed && e.pulse != nil // the other replicas may have stored what the leader could not
		return 0, fmt.Errorf("natskv: %w", fault(e.explain(err), !stored))
	case steady && e.steady():
		return 0, fmt.Errorf("natskv: %w", kvstore.ErrOutdated)
	}
	if revision, err = e.resolveRejected(ctx, msg, name, revision, err); err != nil {
		return 0, fmt.Errorf("natskv: %w", fault(err, false))
	}
	return revision, nil
}

// expect makes the server reject a message unless the last one of its subject has the given sequence number.
func expect(msg *nats.Msg, revision uint64) {
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
}

func isConflict(err error) bool {
	code := codeOf(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// forever is the time from which a message has no end: the server adds the time to the current one in 64-bit nanoseconds, and removes
// a message at once if that overflows.
const forever = 50 * 365 * 24 * time.Hour

// message returns a message that the server removes after some time.
func (e *Engine) message(name string, value []byte, keep time.Duration) *nats.Msg {
	msg := nats.NewMsg(e.subject + name)
	msg.Data = value
	if keep < forever {
		seconds := max(1, (keep+time.Second-1)/time.Second)
		msg.Header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(int64(seconds), 10)+"s")
	}
	return msg
}

// write publishes a message, and returns when a majority of the replicas has it.
func (e *Engine) write(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error) {
	return untilAccepted(ctx, e.conn.IsConnected, func() (*jetstream.PubAck, error) {
		sent := e.pulse.start(e.conn.ConnectedServerId())
		ack, err := during(ctx, e.link, func(ctx context.Context) (*jetstream.PubAck, error) {
			return e.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		})
		if err == nil {
			e.pulse.acknowledged(sent)
		}
		return ack, err
	})
}

const (
	firstPatience = 100 * time.Millisecond // the first wait for a response before a read is repeated
	lastPatience  = 3 * time.Second

	handover         = 300 * time.Millisecond // the longest time for a leader to hand over to another
	retryPause       = 10 * time.Millisecond  // the pause before a request that no server accepted is repeated
	codeNotAvailable = jetstream.ErrorCode(10008)
	codeNotLeader    = jetstream.ErrorCode(10009)
)

// untilAccepted repeats a request until a leader accepts it. While one leader hands over to another, which takes some milliseconds,
// no server does. If the leader has died, the next election takes seconds, and the request fails.
func untilAccepted[T any](ctx context.Context, online func() bool, send func() (T, error)) (answer T, err error) {
	for late := time.Now().Add(handover); ; {
		if !online() {
			return answer, errOffline
		}
		answer, err = send()
		if !notAccepted(err) || time.Now().After(late) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(retryPause):
		}
	}
}

// notAccepted reports whether an error means that no server has acted on a request.
func notAccepted(err error) bool {
	code := codeOf(err)
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || code == codeNotAvailable || code == codeNotLeader
}

// codeOf returns the code of an error that a server has returned, or 0.
func codeOf(err error) jetstream.ErrorCode {
	var apiErr *jetstream.APIError
	if errors.As(err, &apiErr) {
		return apiErr.ErrorCode
	}
	return 0
}

// explain adds a remedy to an error.
func (e *Engine) explain(err error) error {
	switch codeOf(err) {
	case codeAccountFull, codeServerFull, codeMemoryFull, codeStorageFull, codeStoreFailed:
		return fmt.Errorf("bucket %s, its account or its server is full; raise max_bytes, or the storage limit of the account or the server: %w", e.opts.Bucket, err)
	}
	return err
}
