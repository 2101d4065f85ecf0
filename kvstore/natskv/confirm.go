package natskv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/kvstore"
)

// swapHeader identifies a swap that is made while there may be an old leader.
const swapHeader = "Slidegate-Swap"

// readConfirmed reads while there may be an old leader. It confirms the message that it has read by writing another one on the
// condition that the first is still the last one of its name: only the current leader can acknowledge that.
func (e *Engine) readConfirmed(ctx context.Context, name string) (*jetstream.RawStreamMsg, error) {
	for {
		msg, err := e.readOrNone(ctx, name)
		if err != nil {
			return nil, err
		}
		check := e.message(e.checkName, nil, ownTTL)
		expect(check, msg.Sequence)
		check.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, e.subject+name)
		if _, err = e.write(ctx, check); err == nil {
			return msg, nil
		}
		if !isConflict(err) {
			return nil, fmt.Errorf("cannot confirm that the response came from the current leader: %w", err)
		}
		select { // another process may be writing it
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(retryPause)):
		}
	}
}

// resolveRejected finds the outcome of a swap that was rejected while there may be an old leader. If the old leader rejected it,
// the current one may have accepted it.
func (e *Engine) resolveRejected(ctx context.Context, swap *nats.Msg, name string, revision uint64, refusal error) (uint64, error) {
	if last, known := lastSequence(refusal); known && last > revision {
		return 0, kvstore.ErrOutdated // an old leader has nothing newer
	}
	msg, err := e.readConfirmed(ctx, name)
	if err != nil {
		return 0, err
	}
	switch mark := swap.Header.Get(swapHeader); {
	case mark == "" && msg.Sequence > revision:
		return 0, fmt.Errorf("an old leader may have rejected a swap that the current one accepted: %w", refusal)
	case mark == "" || mark != msg.Header.Get(swapHeader):
		return 0, kvstore.ErrOutdated
	}
	return msg.Sequence, nil
}

// lastSequence returns the sequence number of the last message according to an error.
func lastSequence(err error) (last uint64, known bool) {
	var apiErr *jetstream.APIError
	if !errors.As(err, &apiErr) {
		return 0, false
	}
	_, text, _ := strings.Cut(apiErr.Description, "wrong last sequence: ")
	last, err = strconv.ParseUint(text, 10, 64)
	return last, err == nil
}
