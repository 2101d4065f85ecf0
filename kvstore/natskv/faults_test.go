package natskv

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/storetest"
)

func TestWhatErrorsMean(t *testing.T) {
	api := func(code jetstream.ErrorCode, status int) error {
		return fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: code, Code: status})
	}
	for _, c := range []struct {
		err     error
		certain bool // the request failed with this error, and not what was sent after it
		want    string
	}{
		{errOffline, true, "down undone"},
		{nats.ErrNoResponders, true, "down undone"},
		{jetstream.ErrNoStreamResponse, true, "down undone"},
		{jetstream.ErrNoStreamResponse, false, "down"},
		{nats.ErrConnectionClosed, true, "down"},
		{nats.ErrNoServers, true, "down undone"},
		{nats.ErrAuthorization, true, "down undone refused"},
		{nats.ErrMaxConnectionsExceeded, true, "busy undone"},
		{jetstream.ErrJetStreamNotEnabled, true, "down undone"},
		{jetstream.ErrStreamNotFound, true, "down undone"},
		{api(10047, 500), true, "down undone"},
		{api(10023, 503), true, "down undone"},
		{api(10077, 503), true, "down undone"},
		{api(10077, 503), false, "down"},
		{api(codeNotAvailable, 503), true, "down undone"},
		{api(10054, 400), true, "undone"}, // one message is too large
		{api(jetstream.JSErrCodeStreamWrongLastSequence, 400), false, ""},
		{io.EOF, true, "busy"},
		{context.DeadlineExceeded, true, ""},
		{nats.ErrTimeout, true, ""},
	} {
		if got := storetest.Marks(fault(c.err, c.certain)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
