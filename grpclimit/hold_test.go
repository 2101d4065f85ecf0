package grpclimit

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func retryInfo(d time.Duration) error {
	s, err := status.New(codes.ResourceExhausted, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func TestHoldsKeepTheLaterTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holds{maxWait: 2 * time.Hour}
		ann := holdKey{"target", "method", "ann"}
		for _, step := range []struct{ retryInfo, want time.Duration }{
			{time.Minute, time.Minute},
			{time.Second, time.Minute},
			{time.Hour, time.Hour},
		} {
			h.record(ann, retryInfo(step.retryInfo))
			if got := h.left(ann); got != step.want {
				t.Errorf("after %v: got %v left, want %v", step.retryInfo, got, step.want)
			}
		}
		for _, other := range []holdKey{{"x", "method", "ann"}, {"target", "x", "ann"}, {"target", "method", "x"}} {
			if got := h.left(other); got != 0 {
				t.Errorf("%v: got a wait of %v, want 0", other, got)
			}
		}
		time.Sleep(time.Hour)
		if h.left(ann) != 0 || len(h.until) != 0 || h.nonEmpty.Load() {
			t.Errorf("after an hour %v: got a wait of %v, and the holds %v; want 0 and none", ann, h.left(ann), h.until)
		}
	})
}

func TestHoldsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holds{maxWait: 2 * time.Hour}
		add := func(from, n int) {
			for i := range n {
				h.remember(holdKey{key: strconv.Itoa(from + i)}, time.Now().Add(time.Minute))
			}
		}
		add(0, minSweep)
		time.Sleep(time.Minute)
		add(minSweep, 1) // now expired holds are removed
		if len(h.until) != 1 {
			t.Errorf("got %d holds, want only the new one", len(h.until))
		}
		add(0, maxHolds+100)
		if len(h.until) != maxHolds {
			t.Errorf("got %d holds, want %d", len(h.until), maxHolds)
		}
		if last := (holdKey{key: strconv.Itoa(maxHolds + 99)}); h.left(last) != time.Minute {
			t.Errorf("the last one: got a wait of %v, want 1m", h.left(last))
		}
	})
}
