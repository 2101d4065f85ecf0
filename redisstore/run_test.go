package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// watched is a Conn that records the deadline of the client's context.
type watched struct {
	nowhere
	until *time.Time
}

func (w watched) Run(ctx context.Context, _, _ string, _ []Call) { *w.until, _ = ctx.Deadline() }

// A client may take as long as the caller waits, and a little longer.
func TestClientHasTheCallersTime(t *testing.T) {
	var until time.Time
	st, err := NewWithConn(watched{until: &until}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := slidegate.New(st, slidegate.PerMinute(5))
	if err != nil {
		t.Fatal(err)
	}
	deadlineOf := func(ctx context.Context) time.Time {
		until = time.Time{}
		_, _ = l.Allow(ctx, "key") // no server answers
		return until
	}
	for _, wait := range []time.Duration{time.Second, time.Minute, time.Hour} {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		own, _ := ctx.Deadline()
		if got := deadlineOf(ctx).Sub(own); got != longestRun {
			t.Errorf("a caller waits %v: got a client's deadline %v later, want %v", wait, got, longestRun)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if got := deadlineOf(ctx); !got.IsZero() {
		t.Errorf("a caller without a deadline: got a client's deadline in %v", time.Until(got))
	}
}
