package natskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/serverclock"
	"github.com/slidegate/slidegate/rule"
)

// Engine is a bucket of JetStream. It is safe for concurrent use. The zero value is not usable; Open makes it. Close it; the connection
// stays the caller's.
type Engine struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	opts    Options
	subject string // of all entries, with a dot at its end
	pulse   *pulse
	clock   *serverclock.Clock
}

// Open creates the bucket, or uses the one that is there, and reads the server's clock. From then on the engine outlives every outage:
// while the servers cannot be reached its methods fail, and later they work again.
func Open(ctx context.Context, conn *nats.Conn, opts Options) (*Engine, error) {
	if conn == nil {
		return nil, errors.New("natskv: conn: must not be nil; nats.Connect makes one")
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
	e := &Engine{conn: conn, js: js, opts: opts, subject: "$KV." + opts.Bucket + "."}
	if e.stream, err = opts.openStream(ctx, js); err != nil {
		return nil, err
	}
	e.pulse = newPulse(e, e.stream.CachedInfo().Cluster != nil)
	if e.clock, err = serverclock.Start(ctx, e.pulse.look); err != nil {
		return nil, fmt.Errorf("natskv: the server's clock: %w", err)
	}
	return e, nil
}

// Close stops reading the server's clock.
func (e *Engine) Close() { e.clock.Stop() }

// Now returns the time by the clock of the stream's leader.
func (e *Engine) Now() rule.Micros { return e.clock.Now() }

// Skew reports by how much Now may differ from the leader's clock.
func (e *Engine) Skew() time.Duration { return e.clock.Error() }

// Traits reports what JetStream can do.
func (e *Engine) Traits() kvstore.Traits {
	return kvstore.Traits{Name: "nats", MaxName: 128, MaxValue: 1 << 20, ServerClock: true, Skew: 2 * e.Skew()}
}

// errOffline is returned while there is no connection: what is sent then would be delivered whenever there is one again.
var errOffline = errors.New("natskv: there is no connection to a NATS server")

// Get returns the value of a name as the leader of the stream has it. See the package comment for what is known of leaders that do not
// know yet that they are none.
func (e *Engine) Get(ctx context.Context, name string) (value []byte, revision uint64, err error) {
	for {
		msg, err := e.read(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			msg = &jetstream.RawStreamMsg{}
		case err != nil:
			return nil, 0, fmt.Errorf("natskv: %w", err)
		}
		if e.pulse.felt() {
			return msg.Data, msg.Sequence, nil
		}
		if err := e.pulse.feel(ctx); err != nil {
			return nil, 0, fmt.Errorf("natskv: whether the server that answers still leads: %w", err)
		}
	}
}

// read asks the leader for the last message of a name. It asks again if there is no answer: a server that has just lost its lead
// drops requests.
func (e *Engine) read(ctx context.Context, name string) (msg *jetstream.RawStreamMsg, err error) {
	for patience := firstPatience; ; patience *= 2 {
		msg, err = untilTaken(ctx, e.conn, func() (*jetstream.RawStreamMsg, error) {
			once, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return e.stream.GetLastMsgForSubject(once, e.subject+name)
		})
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || patience > lastPatience {
			return msg, err
		}
	}
}

// Swap writes a value if the last message of the name still has the given sequence number. An error that does not wrap
// kvstore.ErrConflict leaves open whether the value was written, with one exception that callers need not know: errors of the
// bucket being full or the connection being down say that it was not.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	msg := e.message(name, value, keep)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	ack, err := e.write(ctx, msg)
	if err != nil {
		return 0, fmt.Errorf("natskv: %w", e.explain(err))
	}
	return ack.Sequence, nil
}

// message returns one that the server forgets after a time.
func (e *Engine) message(name string, value []byte, keep time.Duration) *nats.Msg {
	msg := nats.NewMsg(e.subject + name)
	msg.Data = value
	seconds := max(1, (keep+time.Second-1)/time.Second)
	msg.Header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(int64(seconds), 10)+"s")
	return msg
}

// write publishes a message, and returns when most of the replicas have it.
func (e *Engine) write(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error) {
	return untilTaken(ctx, e.conn, func() (*jetstream.PubAck, error) {
		before := e.pulse.start()
		ack, err := e.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		if err == nil {
			e.pulse.seen(before)
		}
		return ack, err
	})
}

const (
	firstPatience = 100 * time.Millisecond // how long the answer to a read may take before it is asked for again
	lastPatience  = 3 * time.Second

	handover   = 300 * time.Millisecond // how long a leader may take to hand over to another
	askAgain   = 10 * time.Millisecond  // after how long a request is sent again that nobody has taken
	notThere   = jetstream.ErrorCode(10008)
	notLeading = jetstream.ErrorCode(10009)
)

// untilTaken asks until a server has taken the request: one that leads the stream. While a leader hands over to another, which takes
// some milliseconds, nobody does. Where a leader has died, it takes seconds until there is another, and the request fails.
func untilTaken[T any](ctx context.Context, conn *nats.Conn, ask func() (T, error)) (answer T, err error) {
	for late := time.Now().Add(handover); ; {
		if !conn.IsConnected() {
			return answer, errOffline
		}
		answer, err = ask()
		if !untaken(err) || time.Now().After(late) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(askAgain):
		}
	}
}

// untaken reports whether an error says that no server has done anything about a request.
func untaken(err error) bool {
	code := codeOf(err)
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || code == notThere || code == notLeading
}

// codeOf returns the code of an error that a server has answered, or 0.
func codeOf(err error) jetstream.ErrorCode {
	var answered *jetstream.APIError
	if errors.As(err, &answered) {
		return answered.ErrorCode
	}
	return 0
}

// explain returns what an error of a swap means.
func (e *Engine) explain(err error) error {
	switch codeOf(err) {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return kvstore.ErrConflict
	case 10002, 10023, 10028, 10047, 10077: // limits of the account, the server and the stream
		return fmt.Errorf("bucket %s is full, or its account or server is; raise max_bytes, or what the account or the server may store: %w", e.opts.Bucket, err)
	}
	return err
}
