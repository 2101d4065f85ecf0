package natskv

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/internal/testkit"
)

// There is one leader for certain as long as writes over one connection have been acknowledged without a gap, and if there was a gap,
// long after it.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(unaware)
		check := func(when string, server string, want bool) {
			t.Helper()
			if got := p.steady(server); got != want {
				t.Errorf("%s: steady is %v, want %v", when, got, want)
			}
		}
		beatFor := func(d time.Duration, server string) {
			for range d / time.Second {
				testkit.Pass(time.Second)
				p.acknowledged(p.start(server))
			}
		}
		check("at first", "a", false)
		p.acknowledged(p.start("a"))
		check("after a write", "a", true)
		check("over another connection", "b", false)
		beatFor(10*time.Second, "a")
		check("after many", "a", true)
		p.acknowledged(p.start("b"))
		check("after a reconnect", "b", true)
		testkit.Pass(beatLasts)
		check("after a gap", "b", false)
		late := p.start("b")
		p.acknowledged(late)
		check("after the first write since a gap", "b", false)
		beatFor(unaware-time.Second, "b")
		check("shortly after a gap", "b", false)
		beatFor(time.Second, "b")
		check("long after a gap", "b", true)
		p.acknowledged(late)
		check("after an old acknowledgement", "b", true)
	})
}

// A process that starts when the stream has just got its leader does not rely on there being one alone.
func TestPulseOfNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(unaware - time.Second)
		p.acknowledged(p.start("a"))
		if p.steady("a") {
			t.Error("steady is true a second too early")
		}
		testkit.Pass(time.Second)
		if !p.steady("a") {
			t.Error("steady is false")
		}
	})
}

func TestLedFor(t *testing.T) {
	now := time.Now()
	since := func(d time.Duration) *jetstream.ClusterInfo {
		at := now.Add(-d)
		return &jetstream.ClusterInfo{LeaderSince: &at}
	}
	for _, test := range []struct {
		cluster *jetstream.ClusterInfo
		age     time.Duration
		want    time.Duration
	}{
		{since(time.Second), time.Hour, time.Second},
		{since(time.Minute), time.Hour, time.Minute},
		{since(time.Second), 2 * time.Second, unaware}, // it is new: nobody has led it before
		{nil, time.Hour, unaware},
	} {
		info := &jetstream.StreamInfo{Cluster: test.cluster, TimeStamp: now, Created: now.Add(-test.age)}
		if got := ledFor(info); got != test.want {
			t.Errorf("a stream of the age %v has had its leader for %v, want %v", test.age, got, test.want)
		}
	}
}

func TestLastSequence(t *testing.T) {
	for text, want := range map[string]uint64{"wrong last sequence: 17": 17, "wrong last sequence: 0": 0} {
		err := fmt.Errorf("nats: %w", &jetstream.APIError{Description: text})
		if got, known := lastSequence(err); got != want || !known {
			t.Errorf("%q names %d, %v; want %d", text, got, known, want)
		}
	}
	for _, err := range []error{errors.New("wrong last sequence: 17"), &jetstream.APIError{Description: "wrong last sequence"}} {
		if got, known := lastSequence(err); known {
			t.Errorf("%v names %d, want nothing", err, got)
		}
	}
}

// A request that no server has taken is sent again for as long as a handover may take. Any other error is final.
func TestUntilTaken(t *testing.T) {
	other := errors.New("other")
	always := func() bool { return true }
	for _, test := range []struct {
		name   string
		online func() bool
		err    error         // of every attempt
		until  time.Duration // from then on there is none
		want   error
		took   time.Duration
	}{
		{"taken", always, nil, 0, nil, 0},
		{"not taken for a while", always, nats.ErrNoResponders, 100 * time.Millisecond, nil, 100 * time.Millisecond},
		{"nobody leads for a while", always, &jetstream.APIError{ErrorCode: notThere}, 50 * time.Millisecond, nil, 50 * time.Millisecond},
		{"never taken", always, jetstream.ErrNoStreamResponse, time.Hour, jetstream.ErrNoStreamResponse, handover + askAgain},
		{"failed", always, other, time.Hour, other, 0},
		{"offline", func() bool { return false }, nil, 0, errOffline, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			_, err := untilTaken(t.Context(), test.online, func() (int, error) {
				if time.Since(begin) < test.until {
					return 0, test.err
				}
				return 0, nil
			})
			if took := time.Since(begin); !errors.Is(err, test.want) || took != test.took {
				t.Errorf("%s: %v after %v, want %v after %v", test.name, err, took, test.want, test.took)
			}
		})
	}
}
