package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/internal/serverclock"
)

// ownTTL is the time to live of the messages that this process writes for itself, so that none remain after it has ended.
const ownTTL = time.Minute

// readClock reads the leader's clock: it writes a message, and reads the timestamp that the server gave it. A process leaves at
// most one such message.
func (e *Engine) readClock(ctx context.Context) (r serverclock.Reading, err error) {
	r.Sent = time.Now()
	ack, err := e.write(ctx, e.message(e.clockName, nil, ownTTL))
	if errors.Is(err, jetstream.ErrNoStreamResponse) { // the bucket may have been deleted
		if _, err := e.opts.openStream(ctx, e.js); err != nil {
			return r, err
		}
		r.Sent = time.Now()
		ack, err = e.write(ctx, e.message(e.clockName, nil, ownTTL))
	}
	if err != nil {
		return r, err
	}
	r.Received = time.Now()
	msg, err := e.read(ctx, e.clockName)
	if err != nil {
		return r, err
	}
	if msg.Sequence != ack.Sequence {
		return r, fmt.Errorf("message %d was written and %d was read; the response came from an old leader", ack.Sequence, msg.Sequence)
	}
	r.Shown = msg.Time
	return r, nil
}
