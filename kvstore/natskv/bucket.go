package natskv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/store"
)

// Options configures an Engine. The zero value means a bucket named "slidegate" on one server's disk.
type Options struct {
	// Bucket is the name of the bucket: letters, digits, "-" and "_"; if it is empty, "slidegate" is used. It is created if it does not
	// exist.
	Bucket string
	// Replicas is the number of servers that keep the bucket, 1 to 5; 0 means 1. With 3 the bucket survives the loss of one of them, with
	// 5 of two. An existing bucket must have at least as many.
	Replicas int
	// Memory keeps the bucket in the servers' memory rather than on disk. An existing bucket must be on disk unless Memory is set.
	Memory bool
	// MaxBytes limits the size of the bucket; 0 means that only the server and the account limit it. A full bucket accepts no new keys:
	// decisions about them fail, and decisions about existing keys do not. It applies when the bucket is created.
	MaxBytes int64
}

func (o *Options) check() error {
	switch {
	case strings.ContainsFunc(o.Bucket, notInBucket):
		return fmt.Errorf("natskv: bucket: %q is invalid; use letters, digits, - and _", o.Bucket)
	case o.Replicas < 0 || o.Replicas > 5:
		return fmt.Errorf("natskv: replicas: must be 1 to 5, or 0 for 1, not %d", o.Replicas)
	case o.MaxBytes < 0:
		return fmt.Errorf("natskv: max bytes: must not be negative, got %d; 0 means no limit", o.MaxBytes)
	}
	return nil
}

func notInBucket(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// streamName returns the name of the bucket's stream, which follows JetStream's convention, so that tools recognize the bucket.
func (o *Options) streamName() string { return "KV_" + o.Bucket }

// openStream returns the bucket's stream, and creates it if it does not exist.
func (o *Options) openStream(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, o.streamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, o.streamConfig())
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process has just created it
			stream, err = js.Stream(ctx, o.streamName())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("natskv: bucket %s: %w", o.Bucket, err)
	}
	if err := o.checkStream(&stream.CachedInfo().Config); err != nil {
		err = fmt.Errorf("natskv: bucket %s: %w, or choose another bucket", o.Bucket, err)
		return nil, store.Fault(err, store.ErrRefused, store.ErrDown, store.ErrUndone)
	}
	return stream, nil
}

func (o *Options) subjects() string { return "$KV." + o.Bucket + ".>" }

func (o *Options) streamConfig() jetstream.StreamConfig {
	config := jetstream.StreamConfig{
		Name: o.streamName(), Subjects: []string{o.subjects()}, MaxMsgsPerSubject: 1, MaxBytes: -1, AllowMsgTTL: true, AllowRollup: true,
		DenyDelete: true, Discard: jetstream.DiscardNew, Replicas: max(1, o.Replicas), Storage: jetstream.FileStorage,
	}
	if o.Memory {
		config.Storage = jetstream.MemoryStorage
	}
	if o.MaxBytes > 0 {
		config.MaxBytes = o.MaxBytes
	}
	return config
}

// checkStream returns an error if a stream, which this package may not have created, cannot keep entries or would lose some.
func (o *Options) checkStream(config *jetstream.StreamConfig) error {
	switch {
	case len(config.Subjects) != 1 || config.Subjects[0] != o.subjects():
		return fmt.Errorf("its stream has the subjects %q; set them to %q only", config.Subjects, o.subjects())
	case config.Retention != jetstream.LimitsPolicy:
		return fmt.Errorf("its stream has the retention policy %v; set retention to limits", config.Retention)
	case config.Mirror != nil || len(config.Sources) > 0 || config.Sealed:
		return errors.New("it is a mirror, has sources, or is sealed; use a bucket that can be written")
	case config.NoAck:
		return errors.New("it does not acknowledge writes; clear no_ack")
	case config.MaxMsgsPerSubject != 1:
		return fmt.Errorf("it keeps %d values per key; set history to 1", config.MaxMsgsPerSubject)
	case !config.AllowMsgTTL:
		return errors.New("its messages cannot have a time to live; set allow_msg_ttl (NATS 2.11 or later)")
	case config.AllowDirect:
		return errors.New("it allows direct reads, which may be out of date; clear allow_direct")
	case config.MaxAge != 0:
		return fmt.Errorf("it forgets everything after %v; set max_age to 0, since entries have their own times to live", config.MaxAge)
	case config.Discard != jetstream.DiscardNew && (config.MaxBytes > 0 || config.MaxMsgs > 0):
		return errors.New("it forgets old entries when it is full; set discard to new")
	case config.AllowMsgCounter:
		return errors.New("its messages are counters; clear allow_msg_counter")
	case config.PersistMode == jetstream.AsyncPersistMode:
		return errors.New("it acknowledges writes before they are stored; set persist_mode to default")
	case config.Replicas < o.Replicas:
		return fmt.Errorf("it has %d replicas, and %d are required; add replicas, require fewer", config.Replicas, o.Replicas)
	case config.Storage == jetstream.MemoryStorage && !o.Memory:
		return errors.New("it is in memory, and storage on disk is required; set Memory")
	}
	return nil
}
