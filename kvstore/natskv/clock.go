package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/kvstore/serverclock"
)

// ownLasts is the time to live of the messages that this process writes for itself, so that none remains after it has ended.
const ownLasts = time.Minute

// look reads the leader's clock: it writes a message, and reads which time the server gave it. A process leaves at most one such
// message.
func (e *Engine) look(ctx context.Context) ([]serverclock.Reading, error) {
	r := serverclock.Reading{Sent: time.Now()}
	ack, err := e.write(ctx, e.message(e.clockName, nil, ownLasts))
	if errors.Is(err, jetstream.ErrNoStreamResponse) { // somebody may have deleted the bucket
		if _, err := e.opts.openStream(ctx, e.js); err != nil {
			return nil, err
		}
		r.Sent = time.Now()
		ack, err = e.write(ctx, e.message(e.clockName, nil, ownLasts))
	}
	if err != nil {
		return nil, err
	}
	r.Heard = time.Now()
	msg, err := e.read(ctx, e.clockName)
	if err != nil {
		return nil, err
	}
	if msg.Sequence != ack.Sequence {
		return nil, fmt.Errorf("message %d was written and %d was read: an old leader answers", ack.Sequence, msg.Sequence)
	}
	r.Shown = msg.Time
	return []serverclock.Reading{r}, nil
}
