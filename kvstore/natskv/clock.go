package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/kvstore/serverclock"
)

// ownLasts is how long the messages live that this process writes for itself: none is left soon after its end.
const ownLasts = time.Minute

// look reads the leader's clock: it writes a message, and reads the time that the server gave to it. There is never more than one such
// message of a process.
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
