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

// A pulse is steady while writes over one connection are acknowledged without a gap, and again long after a gap.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(oldLeaderTime)
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
		testkit.Pass(beatLifetime)
		check("after a gap", "b", false)
		late := p.start("b")
		p.acknowledged(late)
		check("after the first write since a gap", "b", false)
		beatFor(oldLeaderTime-time.Second, "b")
		check("shortly after a gap", "b", false)
		beatFor(time.Second, "b")
		check("long after a gap", "b", true)
		p.acknowledged(late)
		check("after an old acknowledgement", "b", true)
	})
}

// A process that starts just after an election does not assume that there is only one leader.
func TestPulseOfNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(oldLeaderTime - time.Second)
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
		{since(time.Second), 2 * time.Second, oldLeaderTime}, // it is new, so no other server has led it
		{nil, time.Hour, oldLeaderTime},
	} {
		info := &jetstream.StreamInfo{Cluster: test.cluster, TimeStamp: now, Created: now.Add(-test.age)}
		if got := leaderAge(info); got != test.want {
			t.Errorf("ledFor a stream of age %v is %v, want %v", test.age, got, test.want)
		}
	}
}

func TestLastSequence(t *testing.T) {
	for text, want := range map[string]uint64{"wrong last sequence: 17": 17, "wrong last sequence: 0": 0} {
		err := fmt.Errorf("nats: %w", &jetstream.APIError{Description: text})
		if got, known := lastSequence(err); got != want || !known {
			t.Errorf("lastSequence(%q) = %d, %v; want %d", text, got, known, want)
		}
	}
	for _, err := range []error{errors.New("wrong last sequence: 17"), &jetstream.APIError{Description: "wrong last sequence"}} {
		if got, known := lastSequence(err); known {
			t.Errorf("lastSequence(%v) = %d, want none", err, got)
		}
	}
}

// A request that no server has accepted is repeated for as long as a handover may take. Any other error is final.
func TestUntilAccepted(t *testing.T) {
	other := errors.New("other")
	always := func() bool { return true }
	for _, test := range []struct {
		name   string
		online func() bool
		err    error         // of every attempt
		until  time.Duration // from then on attempts succeed
		want   error
		took   time.Duration
	}{
		{"accepted", always, nil, 0, nil, 0},
		{"not accepted for a while", always, nats.ErrNoResponders, 100 * time.Millisecond, nil, 100 * time.Millisecond},
		{"no leader for a while", always, &jetstream.APIError{ErrorCode: codeNotAvailable}, 50 * time.Millisecond, nil, 50 * time.Millisecond},
		{"never accepted", always, jetstream.ErrNoStreamResponse, time.Hour, jetstream.ErrNoStreamResponse, handover + retryPause},
		{"failed", always, other, time.Hour, other, 0},
		{"offline", func() bool { return false }, nil, 0, errOffline, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			_, err := untilAccepted(t.Context(), test.online, func() (int, error) {
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
