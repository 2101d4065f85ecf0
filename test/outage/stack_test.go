//go:build unix

package outage_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// While Redis is stopped or killed, each of two processes counts by itself and admits at most a quota, a key that was refused
// stays refused where that is known, and a login is refused. When Redis is back, Redis decides again. Both notice the outage and its end
// without a request.
func TestStackThroughAnOutage(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ begin, end func(*redistest.Node) }{
		"killed":  {(*redistest.Node).Kill, (*redistest.Node).Restart},
		"stopped": {func(n *redistest.Node) { n.Signal(syscall.SIGSTOP) }, func(n *redistest.Node) { n.Signal(syscall.SIGCONT) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := redistest.Server(t, "appendonly yes", "appendfsync always")
			a, b := newProcess(t, node.Addr()), newProcess(t, node.Addr())
			a.want(t, "used up", 10, 7, 0)
			b.want(t, "busy", 2, 2, 0)

			outage.begin(node)
			kit.Eventually(t, "both processes to see the outage", func() bool { return a.Health() != nil && b.Health() != nil })
			a.want(t, "used up", 10, 0, rule.Cached|rule.FallbackLocal)
			a.want(t, "busy", 10, 7, rule.FallbackLocal)
			b.want(t, "busy", 10, 7, rule.FallbackLocal)
			for mode, want := range map[store.Mode]struct {
				admitted int
				flags    rule.Flags
			}{
				store.FailOpen: {10, rule.FallbackOpen}, store.FailClosed: {0, rule.FallbackClosed},
			} {
				if admitted := a.in(t, mode, mode.String(), want.flags); admitted != want.admitted {
					t.Errorf("%v: got %d of 10 admitted, want %d", mode, admitted, want.admitted)
				}
			}

			outage.end(node)
			kit.Eventually(t, "both processes to see that Redis is back", func() bool { return a.Health() == nil && b.Health() == nil })
			b.want(t, "new", 10, 7, 0)
			if stats := a.Stats().Failure; stats.Outages != 1 {
				t.Errorf("got %d outages, want one for all modes: %+v", stats.Outages, stats)
			}
			for _, p := range []*process{a, b} {
				if err := p.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// process is a stack with a client of its own, as in another process.
type process struct {
	*stack.Store
	limiter *slidegate.Limiter
}

var sevenPerHour = slidegate.Limit{Name: "seven", Quota: 7, Window: time.Hour}

// patience is how long a layer waits for Redis. It is much longer than a busy machine delays a running Redis, so only a stopped one
// counts as an outage; each outage of the tests takes that long.
const patience = 1500 * time.Millisecond

func newProcess(t *testing.T, addr string) *process {
	s := kit.Must(stack.New(overRueidis(t, addr), stack.Options{Timeout: patience, Watch: true}))(t)
	return &process{s, kit.Must(slidegate.New(s, sevenPerHour))(t)}
}

// want makes requests for a key, and checks how many are admitted and by what they are decided.
func (p *process) want(t *testing.T, key string, requests, admitted int, flags rule.Flags) {
	t.Helper()
	if got := take(t, p.limiter, key, requests, flags); got != admitted {
		t.Errorf("%s: got %d of %d admitted, want %d", key, got, requests, admitted)
	}
}

// in makes ten requests in a failure mode, and returns how many are admitted.
func (p *process) in(t *testing.T, mode store.Mode, key string, flags rule.Flags) (admitted int) {
	t.Helper()
	return take(t, kit.Must(slidegate.New(store.In(p.Store, mode), sevenPerHour))(t), key, 10, flags)
}

func take(t *testing.T, limiter *slidegate.Limiter, key string, requests int, flags rule.Flags) (admitted int) {
	t.Helper()
	for range requests {
		d, err := limiter.Allow(context.Background(), key)
		if err != nil || d.Flags != flags && (d.Flags != rule.Cached || d.Allowed) { // a refusal may be remembered
			t.Errorf("%s: got %+v, %v; want the flags %v", key, d, err, flags)
		}
		if d.Allowed {
			admitted++
		}
	}
	return admitted
}
