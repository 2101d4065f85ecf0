package grpclimit

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate/internal/blocks"
)

func retryInfo(d time.Duration) error {
	s, err := status.New(codes.ResourceExhausted, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// Of two times the later one counts, for this target, method and key.
func TestClientObeysTheLaterTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{holds: blocks.New[holdKey](maxHolds), maxObey: 2 * time.Hour}
		ann := holdKey{"target", "method", "ann"}
		for _, step := range []struct{ retryInfo, want time.Duration }{
			{time.Minute, time.Minute},
			{time.Second, time.Minute},
			{time.Hour, time.Hour},
			{24 * time.Hour, 2 * time.Hour},
		} {
			c.obey(ann, retryInfo(step.retryInfo))
			if got, _ := c.holds.Find(ann, time.Now()); got != step.want {
				t.Errorf("after %v: got %v left, want %v", step.retryInfo, got, step.want)
			}
		}
		for _, other := range []holdKey{{"x", "method", "ann"}, {"target", "x", "ann"}, {"target", "method", "x"}} {
			if got, _ := c.holds.Find(other, time.Now()); got != 0 {
				t.Errorf("%v: got a wait of %v, want 0", other, got)
			}
		}
	})
}
