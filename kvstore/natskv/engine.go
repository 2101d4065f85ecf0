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
	"github.com/slidegate/slidegate/rule"
)

// Options are the choices of an Engine. The zero value is a bucket "slidegate" on one server's disk.
type Options struct {
	// Bucket is the name of the bucket, of letters, digits, "-" and "_"; "slidegate" if it is empty. It is created if it is not there.
	Bucket string
	// Replicas is how many servers of a cluster keep the bucket, 1 to 5; 0 means 1. It applies when the bucket is created.
	Replicas int
	// Memory keeps the bucket in the memory of the servers and not on their disks. It applies when the bucket is created.
	Memory bool
}

// Engine is a bucket of JetStream. It is safe for concurrent use. Close it; the connection stays the caller's.
type Engine struct {
	stream  jetstream.Stream
	js      jetstream.JetStream
	subject string // with a dot at its end
	clock   *clock
}

// Open creates the bucket, or uses it as it is, and reads the server's clock.
func Open(ctx context.Context, conn *nats.Conn, opts Options) (*Engine, error) {
	if conn == nil {
		return nil, errors.New("natskv: conn: must not be nil; nats.Connect makes one")
	}
	if opts.Bucket == "" {
		opts.Bucket = "slidegate"
	}
	if opts.Replicas < 0 || opts.Replicas > 5 {
		return nil, fmt.Errorf("natskv: replicas: must be 1 to 5, or 0 for 1, not %d", opts.Replicas)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("natskv: %w", err)
	}
	stream, err := openStream(ctx, js, &opts)
	if err != nil {
		return nil, err
	}
	e := &Engine{stream: stream, js: js, subject: "$KV." + opts.Bucket + "."}
	e.clock, err = startClock(ctx, e)
	return e, err
}

// openStream returns the stream of the bucket. It has the names that JetStream gives to those of buckets, so that tools for buckets
// see it.
func openStream(ctx context.Context, js jetstream.JetStream, opts *Options) (jetstream.Stream, error) {
	name := "KV_" + opts.Bucket
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		storage := jetstream.FileStorage
		if opts.Memory {
			storage = jetstream.MemoryStorage
		}
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{"$KV." + opts.Bucket + ".>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, AllowRollup: true,
			DenyDelete: true, Discard: jetstream.DiscardNew, Replicas: max(1, opts.Replicas), Storage: storage,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // by another process, at the same moment
			stream, err = js.Stream(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("natskv: bucket %s: %w", opts.Bucket, err)
	}
	switch config := stream.CachedInfo().Config; {
	case config.MaxMsgsPerSubject != 1:
		err = fmt.Errorf("it keeps %d values of a key, and must keep 1", config.MaxMsgsPerSubject)
	case !config.AllowMsgTTL:
		err = errors.New("its messages cannot have a time to live; set allow_msg_ttl (NATS 2.11 or later)")
	case config.AllowDirect:
		err = errors.New("it allows direct reads, which may be of the past; clear allow_direct")
	case config.MaxAge != 0:
		err = fmt.Errorf("it forgets everything after %v; set max_age to 0, since entries have their own times to live", config.MaxAge)
	}
	if err != nil {
		return nil, fmt.Errorf("natskv: bucket %s: %w, or choose another bucket", opts.Bucket, err)
	}
	return stream, nil
}

// Get returns the value of a name as the leader of the stream has it.
func (e *Engine) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	msg, err := e.stream.GetLastMsgForSubject(ctx, e.subject+name)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("natskv: %w", err)
	}
	return msg.Data, msg.Sequence, nil
}

// The errors by which a server says that the revision is another.
const (
	wrongLastSequence         jetstream.ErrorCode = 10071
	wrongLastSequenceConstant jetstream.ErrorCode = 10164
)

// Swap writes a value if the last message of the name is still the given one.
func (e *Engine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	ack, err := e.write(ctx, name, value, revision, keep)
	if refused := (*jetstream.APIError)(nil); errors.As(err, &refused) &&
		(refused.ErrorCode == wrongLastSequence || refused.ErrorCode == wrongLastSequenceConstant) {
		return 0, fmt.Errorf("natskv: %w", kvstore.ErrConflict)
	}
	if err != nil {
		return 0, fmt.Errorf("natskv: %w", err)
	}
	return ack.Sequence, nil
}

func (e *Engine) write(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (*jetstream.PubAck, error) {
	msg := nats.NewMsg(e.subject + name)
	msg.Data = value
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	seconds := max(1, (keep+time.Second-1)/time.Second)
	msg.Header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(int64(seconds), 10)+"s")
	return e.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0)) // sent once: what became of it would not be known otherwise
}

// Now returns the time by the clock of the stream's leader.
func (e *Engine) Now() rule.Micros { return e.clock.now() }

// Skew reports by how much Now may differ from the leader's clock.
func (e *Engine) Skew() time.Duration { return e.clock.skew() }

// Close stops looking at the server's clock.
func (e *Engine) Close() { e.clock.stop() }

// Traits reports what JetStream can do.
func (e *Engine) Traits() kvstore.Traits {
	return kvstore.Traits{Name: "nats", MaxName: 128, MaxValue: 1 << 20, ServerClock: true, Skew: 2 * e.Skew()}
}
