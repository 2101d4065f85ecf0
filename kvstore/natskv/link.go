package natskv

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
)

// link ends calls whose connection has broken. No response to them can arrive, but the client would wait for one until their time is
// up. A link is safe for concurrent use.
type link struct {
	mu    sync.Mutex
	whole context.Context // ends when the connection breaks
	sever context.CancelFunc
}

func newLink() *link {
	l := &link{}
	l.whole, l.sever = context.WithCancel(context.Background())
	return l
}

// watch ends calls whenever the connection breaks, until ctx ends.
func (l *link) watch(ctx context.Context, conn *nats.Conn) {
	changes := conn.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer conn.RemoveStatusListener(changes)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			l.breakCalls()
		}
	}
}

func (l *link) breakCalls() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sever()
	l.whole, l.sever = context.WithCancel(context.Background())
}

// during calls send with a context that also ends when the connection breaks. Its error is then nats.ErrDisconnected.
func during[T any](ctx context.Context, l *link, send func(context.Context) (T, error)) (T, error) {
	l.mu.Lock()
	whole := l.whole
	l.mu.Unlock()
	once, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(whole, cancel)()
	answer, err := send(once)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nats.ErrDisconnected
	}
	return answer, err
}
