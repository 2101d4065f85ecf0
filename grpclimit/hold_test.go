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

func told(d time.Duration) error {
	s, err := status.New(codes.ResourceExhausted, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func TestHoldsKeepTheLaterMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holds{most: 2 * time.Hour}
		ann := holder{"target", "method", "ann"}
		for _, step := range []struct{ told, want time.Duration }{
			{time.Minute, time.Minute},
			{time.Second, time.Minute},
			{time.Hour, time.Hour},
		} {
			h.learn(ann, told(step.told))
			if got := h.left(ann); got != step.want {
				t.Errorf("told %v: %v are left, want %v", step.told, got, step.want)
			}
		}
		for _, other := range []holder{{"x", "method", "ann"}, {"target", "x", "ann"}, {"target", "method", "x"}} {
			if got := h.left(other); got != 0 {
				t.Errorf("%v has to wait %v, want 0", other, got)
			}
		}
		time.Sleep(time.Hour)
		if h.left(ann) != 0 || len(h.until) != 0 || h.some.Load() {
			t.Errorf("after an hour %v has to wait %v, and the holds are %v; want 0 and none", ann, h.left(ann), h.until)
		}
	})
}

func TestHoldsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holds{most: 2 * time.Hour}
		add := func(from, n int) {
			for i := range n {
				h.remember(holder{key: strconv.Itoa(from + i)}, time.Now().Add(time.Minute))
			}
		}
		add(0, fewHolds)
		time.Sleep(time.Minute)
		add(fewHolds, 1) // now those that have passed are looked for
		if len(h.until) != 1 {
			t.Errorf("there are %d, want the new one alone", len(h.until))
		}
		add(0, mostHolds+100)
		if len(h.until) != mostHolds {
			t.Errorf("there are %d, want %d", len(h.until), mostHolds)
		}
		if last := (holder{key: strconv.Itoa(mostHolds + 99)}); h.left(last) != time.Minute {
			t.Errorf("the last one has to wait %v, want 1m", h.left(last))
		}
	})
}
