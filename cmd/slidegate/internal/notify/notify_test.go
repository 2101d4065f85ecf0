package notify

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instance is a gate with a Notifier, as in one process of the service.
type instance struct {
	*gate.Gate
	*Notifier
	log *text
}

func newInstance(t *testing.T, st store.Store, limit string) *instance {
	t.Helper()
	return newHookedInstance(t, st, limit, Webhook{})
}

// newHookedInstance returns an instance with a webhook.
func newHookedInstance(t *testing.T, st store.Store, limit string, hook Webhook) *instance {
	t.Helper()
	l, err := slidegate.ParseLimit(limit)
	testkit.NoError(t, err)
	i := &instance{log: new(text)}
	i.Notifier = New(Options{
		Store: st, Instance: "here", Webhook: hook, Logger: slog.New(slog.NewTextHandler(i.log, nil)), KeyAttr: func(string) slog.Attr { return slog.String("key_hash", "x") },
	})
	t.Cleanup(func() { i.Notifier.Close(t.Context()) })
	file := &config.File{Policies: []config.Policy{{
		Name: "api", Limits: []slidegate.Limit{l}, Notify: []policy.Threshold{{Limit: l, Percent: 80}, {Limit: l, Percent: 100}},
	}}}
	i.Gate, err = gate.New(file, st, gate.Options{OnCrossed: i.Crossed})
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = i.Gate.Close() })
	return i
}

func (i *instance) allow(t *testing.T, key string, cost int64) {
	t.Helper()
	_, err := i.Do(context.Background(), gate.Allow, gate.Request{Policy: "api", Key: key, Cost: cost})
	testkit.NoError(t, err)
}

func (i *instance) refund(t *testing.T, key string, cost int64) {
	t.Helper()
	_, err := i.Do(context.Background(), gate.Refund, gate.Request{Policy: "api", Key: key, Cost: cost})
	testkit.NoError(t, err)
}

// settled waits until every crossing so far has been claimed, and returns how many events were made at a threshold.
func (i *instance) settled(t *testing.T, percent int) int64 {
	t.Helper()
	testkit.Eventually(t, "all crossings to be claimed", func() bool { return i.pending.Load() == 0 })
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.made[madeName{"api", percent}]
}

// A key that goes up and down around a threshold makes one event in a window, no matter which instance sees it, and another in the next.
func TestOneEventInAWindow(t *testing.T) {
	for _, limit := range []string{"10/1m", "10/1m sliding-window segments=6", "10/1m fixed-window", "10/1m token-bucket", "10/1m hold=5s"} {
		t.Run(limit, func(t *testing.T) {
			clock := storetest.NewClock(1_767_000_030e6) // half a minute before a full one
			st, err := memstore.New(memstore.Options{Now: clock.Now})
			testkit.NoError(t, err)
			one, other := newInstance(t, st, limit), newInstance(t, st, limit)
			events := func() [2]int64 {
				return [2]int64{one.settled(t, 80) + other.settled(t, 80), one.settled(t, 100) + other.settled(t, 100)}
			}
			for range 3 {
				one.allow(t, "ann", 8)
				other.refund(t, "ann", 4)
				other.allow(t, "ann", 4)
				one.refund(t, "ann", 8)
			}
			if got := events(); got != [2]int64{1, 0} {
				t.Errorf("got %v events at 80%% and 100%%, want one and none", got)
			}
			other.allow(t, "ann", 10)
			other.allow(t, "bob", 9)
			if got := events(); got != [2]int64{2, 1} {
				t.Errorf("after all was used: got %v, want one of another key, and one", got)
			}
			clock.Advance(130e6)
			one.recent.until, other.recent.until = nil, nil // they go by this machine's clock
			other.allow(t, "ann", 10)
			if got := events(); got != [2]int64{3, 2} {
				t.Errorf("in the next window: got %v, want one more of each", got)
			}
		})
	}
}

// In a window that does not slide, an event is once in that window, however early in the next one it comes again.
func TestEventInTheNextFixedWindow(t *testing.T) {
	clock := storetest.NewClock(1_767_000_059_999_990) // 10 µs before a full minute
	st, err := memstore.New(memstore.Options{Now: clock.Now})
	testkit.NoError(t, err)
	i := newInstance(t, st, "10/1m fixed-window")
	for want := range int64(4) {
		i.allow(t, "ann", 8)
		if got := i.settled(t, 80); got != want+1 {
			t.Fatalf("got %d events, want %d", got, want+1)
		}
		clock.Advance(60e6 - 5)
	}
}

// A window is the same however long reservations hold units beyond it, and at any time of the clock.
func TestOneEventInAFixedWindow(t *testing.T) {
	const minute = 1_767_000_000e6
	for limit, at := range map[string]rule.Micros{ // when its next window begins
		"10/1m fixed-window hold=1h": minute + 60e6, "10/1m fixed-window hold=1s": minute + 60e6, "10/day zone=Europe/Berlin hold=48h": 1_767_049_200e6,
		"10/1m fixed-window anchor=first": minute + 70e6, "10/1m fixed-window anchor=first hold=1h": minute + 140e6, "10/1m fixed-window": minute + 60e6,
	} {
		t.Run(limit, func(t *testing.T) {
			clock := storetest.NewClock(minute + 10e6)
			st, err := memstore.New(memstore.Options{Now: clock.Now})
			testkit.NoError(t, err)
			one, other := newInstance(t, st, limit), newInstance(t, st, limit)
			one.allow(t, "ann", 6)
			for i := range 4 {
				clock.Advance(5e6) // as units are held, each time until later
				if i == 3 {
					clock.Advance(-40e6) // set back, to before the window
				}
				var r slidegate.Reservation
				reserve := gate.Request{Policy: "api", Key: "ann", Cost: 3, Reservation: &r}
				_, err := []*instance{one, other}[i%2].Do(t.Context(), gate.Reserve, reserve)
				testkit.NoError(t, err)
				if got := one.settled(t, 80) + other.settled(t, 80); got != 1 {
					t.Fatalf("after %d reservations: got %d events, want one", i+1, got)
				}
				_, err = one.Do(t.Context(), gate.Cancel, gate.Request{Policy: "api", Reservation: &r})
				testkit.NoError(t, err)
				one.recent.until, other.recent.until = nil, nil // they go by this machine's clock
			}
			clock.Set(at)
			other.allow(t, "ann", 9)
			if got := one.settled(t, 80) + other.settled(t, 80); got != 2 {
				t.Errorf("in the next window: got %d events, want another", got)
			}
		})
	}
}

// slowBoard answers claims late.
type slowBoard struct{ *memstore.Store }

const slowAnswer = time.Second

func (b *slowBoard) Claim(ctx context.Context, name string, life time.Duration) (bool, error) {
	first, err := b.Store.Claim(ctx, name, life)
	time.Sleep(slowAnswer)
	return first, err
}

// The end of a claim is the same for all instances: for the one that made it, and for one that only saw it at the end.
func TestEventAfterAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowBoard{memstore.NewDefault()}
		one, other := newInstance(t, st, "10/24h"), newInstance(t, st, "10/24h")
		expect := func(what string, by *instance, want int64) {
			t.Helper()
			by.refund(t, "ann", 10)
			by.allow(t, "ann", 8)
			time.Sleep(slowAnswer) // which takes no time here
			if got := one.settled(t, 80) + other.settled(t, 80); got != want {
				t.Errorf("%s: got %d events, want %d", what, got, want)
			}
		}
		expect("at first", one, 1)
		time.Sleep(24*time.Hour - 10*time.Second)
		expect("in the window", other, 1)
		time.Sleep(15 * time.Second)
		expect("in the next", other, 2)
		time.Sleep(24*time.Hour - slowAnswer + time.Millisecond)
		expect("in the one after that", other, 3)
	})
}

// failingBoard fails some claims.
type failingBoard struct {
	*memstore.Store
	mu   sync.Mutex
	errs []error
}

func (b *failingBoard) Claim(ctx context.Context, name string, life time.Duration) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errs) > 0 {
		err := b.errs[0]
		b.errs = b.errs[1:]
		return false, err
	}
	return b.Store.Claim(ctx, name, life)
}

// A claim is repeated only if it was certainly not made; otherwise the event is dropped and counted.
func TestClaimsThatFail(t *testing.T) {
	undone := store.Fault(errors.New("no connection"), store.ErrDown, store.ErrUndone)
	b := &failingBoard{Store: memstore.NewDefault(), errs: []error{undone, undone, errors.New("broken")}}
	i := newInstance(t, b, "10/1h")
	i.allow(t, "ann", 8) // fails in the end
	testkit.Eventually(t, "the event to be dropped", func() bool { return i.lost[lostStore].Load() == 1 })
	b.mu.Lock()
	b.errs = []error{undone}
	b.mu.Unlock()
	i.allow(t, "bob", 8)
	if got := i.settled(t, 80); got != 1 {
		t.Errorf("got %d events, want one", got)
	}
}

// Clients follow the events as a stream, and one that comes back gets what it missed.
func TestStream(t *testing.T) {
	i := newInstance(t, memstore.NewDefault(), "10/1h")
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.ServeEvents(w, r, done) }))
	defer server.Close()
	follow := func(last string) *bufio.Scanner {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
		r.Header.Set("Last-Event-ID", last)
		response, err := http.DefaultClient.Do(r)
		testkit.NoError(t, err)
		t.Cleanup(func() { response.Body.Close() })
		if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("got the type %q", got)
		}
		lines := bufio.NewScanner(response.Body)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), ":") {
			t.Errorf("got %q, want a comment", lines.Text())
		}
		return lines
	}
	next := func(lines *bufio.Scanner) (id, data string) {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = rest
			}
			if rest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return id, rest
			}
		}
		return "", ""
	}
	lines := follow("")
	i.allow(t, "an\nn", 8)
	first, data := next(lines)
	if want := `"data":{"policy":"api","key":"an\nn","limit":"10/1h","percent":80,"used":8,"of":10,`; first == "" || !strings.Contains(data, want) {
		t.Errorf("got %q, %s; want %s", first, data, want)
	}
	i.allow(t, "an\nn", 2)
	second, data := next(lines)
	if !strings.Contains(data, `"percent":100`) {
		t.Errorf("got %s, want the next event", data)
	}
	if id, _ := next(follow(first)); id != second {
		t.Errorf("after %s: got %s, want %s", first, id, second)
	}
	close(done)
	if id, data := next(lines); id != "" {
		t.Errorf("after the end: got %s", data)
	}
	http.DefaultClient.CloseIdleConnections()
	if got := i.log.String(); strings.Contains(got, "an\\n") || strings.Count(got, "near a limit") == 0 || !strings.Contains(got, "key_hash=x") {
		t.Errorf("unexpected log:\n%s", got)
	}
}

// client is a response that records how much is written at once.
type client struct {
	*httptest.ResponseRecorder
	largest, events int
	written         func(events int)
}

func (c *client) Write(p []byte) (int, error) {
	c.largest, c.events = max(c.largest, len(p)), c.events+bytes.Count(p, []byte("\nevent: "))
	c.written(c.events)
	return c.ResponseRecorder.Write(p)
}

// A client that comes back gets all events that it missed, in order, and they take the memory of a few, however slowly it reads.
func TestStreamOfManyEvents(t *testing.T) {
	n := new(Notifier)
	var ids []string
	publish := func() {
		ids = append(ids, fmt.Sprint("event-", len(ids)))
		n.stream.publish(ids[len(ids)-1], make([]byte, 6*maxKey)) // of a key of control characters
	}
	for range maxBehind + 100 { // the oldest are forgotten
		publish()
	}
	known := len(ids) - len(n.stream.last)
	want := ids[known+1:]
	if events, last, _ := n.stream.after(int64(known + 1)); len(events) > 32 || events[0].id != want[0] || last != int64(known+1+len(events)) {
		t.Errorf("%d events from %s on are held for a client until number %d, want at most 32 from %s on", len(events), events[0].id, last, want[0])
	}
	done := make(chan struct{})
	c := &client{ResponseRecorder: httptest.NewRecorder()}
	c.written = func(events int) {
		if events == 100 && len(ids) < maxBehind+150 { // there are more meanwhile
			for range 50 {
				publish()
			}
			want = ids[known+1:]
		}
		if events >= len(want) {
			close(done)
		}
	}
	r := httptest.NewRequest("GET", "/v1/events", nil)
	r.Header.Set("Last-Event-ID", ids[known])
	n.ServeEvents(c, r, done)
	var got []string
	for line := range strings.Lines(c.Body.String()) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			got = append(got, strings.TrimSpace(id))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d events, want %d in order", len(got), len(want))
	}
	if c.largest > 8*maxKey {
		t.Errorf("%d bytes were written at once, want one event", c.largest)
	}
}

// A flood of crossings takes a bounded memory, never holds up a decision, and what was dropped is counted.
func TestFlood(t *testing.T) {
	blocked := make(chan struct{})
	b := &blockedBoard{memstore.NewDefault(), blocked}
	i := newInstance(t, b, "10/1h")
	const keys = maxQueued + 500
	for n := range keys {
		i.allow(t, fmt.Sprint(n), 8)
	}
	if lost := i.lost[lostQueue].Load(); lost < 500-claimers || lost > 500 {
		t.Errorf("%d events were dropped, want the 500 that do not fit, less those that are being claimed", lost)
	}
	close(blocked)
	if got := i.settled(t, 80); got != keys-i.lost[lostQueue].Load() {
		t.Errorf("got %d events and %d dropped of %d", got, i.lost[lostQueue].Load(), keys)
	}
	if n := len(i.stream.last); n > maxBehind {
		t.Errorf("%d events are kept", n)
	}
	if n := strings.Count(i.log.String(), "near a limit"); n > 100 {
		t.Errorf("%d lines were logged", n)
	}
}

type blockedBoard struct {
	*memstore.Store
	until chan struct{}
}

func (b *blockedBoard) Claim(ctx context.Context, name string, life time.Duration) (bool, error) {
	<-b.until
	return b.Store.Claim(ctx, name, life)
}

// silentBoard does not answer for a while.
type silentBoard struct{ blockedBoard }

func (b *silentBoard) Claim(ctx context.Context, name string, life time.Duration) (bool, error) {
	select {
	case <-b.until:
		return b.Store.Claim(ctx, name, life)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// At the end, crossings that are not claimed yet become events, and these and what waits are sent once more, as long as there is time.
func TestClose(t *testing.T) {
	for name, answers := range map[string]bool{"the store answers": true, "the store does not answer": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &silentBoard{blockedBoard{memstore.NewDefault(), make(chan struct{})}}
				i := newHookedInstance(t, b, "10/1h", Webhook{URL: "http://127.0.0.1:1", Secret: make([]byte, minSecret)})
				var accepted atomic.Int64
				var up atomic.Bool
				i.webhook.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					if !up.Load() {
						return nil, errors.New("down")
					}
					accepted.Add(1)
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				})
				i.make(&Event{})
				synctest.Wait() // the first attempt
				up.Store(true)
				for n := range 300 {
					i.allow(t, fmt.Sprint(n), 8)
				}
				synctest.Wait()
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
				defer cancel()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					i.Notifier.Close(ctx)
				}()
				synctest.Wait()
				want, lost, took := int64(1), int64(300), 4*time.Second
				if got := accepted.Load(); got != want {
					t.Errorf("got %d requests while the store does not answer, want that of the event that waited", got)
				}
				if answers {
					close(b.until)
					want, lost, took = 301, 0, 0
				}
				<-ended
				if got := accepted.Load(); got != want || i.lost[lostStopped].Load() != lost || time.Since(began) != took {
					t.Errorf("after %v: got %d events delivered and %d dropped, want %d and %d after %v",
						time.Since(began), got, i.lost[lostStopped].Load(), want, lost, took)
				}
				i.allow(t, "late", 8)
				if got := i.lost[lostStopped].Load(); got != lost+1 {
					t.Errorf("got %d events dropped, want the late one too", got)
				}
			})
		})
	}
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A crossing is one event for the rest of a window that does not slide, for a whole one that does, and until an empty bucket is full.
func TestLife(t *testing.T) {
	const at = 1_767_225_580e6 // 20 seconds before a month
	for text, want := range map[string]time.Duration{
		"10/1m": time.Minute, "600/1h sliding-window": time.Hour, "10/1m fixed-window": 20 * time.Second, "1000/month zone=UTC": 20 * time.Second,
		"10/1m fixed-window anchor=first": 20 * time.Second, "10/1m fixed-window anchor=first hold=1s": time.Minute,
		"10/1m token-bucket": time.Minute, "10/1m token-bucket burst=40": 4 * time.Minute,
	} {
		l, err := slidegate.ParseLimit(text)
		testkit.NoError(t, err)
		bound, err := adapter.Bind("api", l)
		testkit.NoError(t, err)
		if got := lifeOf(&gate.Crossing{Crossing: &engine.Crossing{Limit: bound, At: at, Reset: 20 * time.Second}}); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// The log has ten lines in any second, also if all of them come at once, and says how many events it left out.
func TestTenLinesInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(text)
		n := &Notifier{opts: Options{Logger: slog.New(slog.NewTextHandler(log, nil)), KeyAttr: func(string) slog.Attr { return slog.Attr{} }}}
		for _, step := range []struct {
			after  time.Duration
			events int
			lines  int
			last   string
		}{
			{0, 4, 4, "left_out=0"},
			{600 * time.Millisecond, 9, 10, "left_out=0"},
			{399 * time.Millisecond, 1, 10, "left_out=0"},
			{time.Millisecond, 6, 14, "left_out=0"}, // the first four are a second old
			{600 * time.Millisecond, 1, 15, "left_out=2"},
		} {
			time.Sleep(step.after)
			for range step.events {
				n.log(&Event{})
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if len(lines) != step.lines || !strings.HasSuffix(lines[len(lines)-1], step.last) {
				t.Errorf("%v later: got %d lines, the last %q; want %d and %s", step.after, len(lines), lines[len(lines)-1], step.lines, step.last)
			}
		}
	})
}
