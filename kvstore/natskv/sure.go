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

// swapHeader marks a swap that is made while there may be an old leader, so that it can be recognized.
const swapHeader = "Slidegate-Swap"

// readSurely is read where there may be an old leader: what was read counts if a message can be written on the condition that it is
// still the last one of the name, since only the true leader acknowledges that.
func (e *Engine) readSurely(ctx context.Context, name string) (*jetstream.RawStreamMsg, error) {
	for {
		msg, err := e.readOrNone(ctx, name)
		if err != nil {
			return nil, err
		}
		check := e.message(e.checkName, nil, ownLasts)
		expect(check, msg.Sequence)
		check.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, e.subject+name)
		if _, err = e.write(ctx, check); err == nil {
			return msg, nil
		}
		if !isConflict(err) {
			return nil, fmt.Errorf("whether the server that answers still leads: %w", err)
		}
		select { // others may be about to write it
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(askAgain)):
		}
	}
}

// wasRefused finds out what became of a swap that a server refused where that may be an old leader: the true one may have written it.
func (e *Engine) wasRefused(ctx context.Context, swap *nats.Msg, name string, revision uint64, refusal error) (uint64, error) {
	if last, known := lastSequence(refusal); known && last > revision {
		return 0, kvstore.ErrConflict // an old leader knows of nothing newer
	}
	msg, err := e.readSurely(ctx, name)
	if err != nil {
		return 0, err
	}
	switch mark := swap.Header.Get(swapHeader); {
	case mark == "" && msg.Sequence > revision:
		return 0, fmt.Errorf("an old leader may have refused what another has written: %w", refusal)
	case mark == "" || mark != msg.Header.Get(swapHeader):
		return 0, kvstore.ErrConflict
	}
	return msg.Sequence, nil
}

// lastSequence returns the sequence number that an error names as that of the last message.
func lastSequence(err error) (last uint64, known bool) {
	var answered *jetstream.APIError
	if !errors.As(err, &answered) {
		return 0, false
	}
	_, text, _ := strings.Cut(answered.Description, "wrong last sequence: ")
	last, err = strconv.ParseUint(text, 10, 64)
	return last, err == nil
}
