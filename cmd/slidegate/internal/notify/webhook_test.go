package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// The example of the specification.
const exampleSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestSignature(t *testing.T) {
	secret, err := ReadSecret(exampleSecret + "\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_short", "whsec_" + strings.Repeat("AAAA", 22), "whsec_!" + exampleSecret[7:]} {
		if _, err := ReadSecret(text); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for text, valid := range map[string]bool{
		"https://example.com/hook?token=x": true, "http://127.0.0.1:8080": true,
		"": false, "example.com": false, "ftp://example.com": false, "https://": false, "https://example.com/#x": false, "https://a b/": false,
	} {
		if err := CheckURL(text); (err == nil) != valid {
			t.Errorf("%q: got %v, want valid: %t", text, err, valid)
		}
	}
}

// receiver is a webhook that accepts events only while it is up, and records them.
type receiver struct {
	*httptest.Server
	up       atomic.Bool
	requests atomic.Int64

	mu       sync.Mutex
	accepted []string // the IDs
	refused  map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	secret, _ := ReadSecret(exampleSecret)
	r := &receiver{refused: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		body, _ := io.ReadAll(q.Body)
		id := q.Header.Get("webhook-id")
		if got, want := q.Header.Get("webhook-signature"), sign(secret, id, q.Header.Get("webhook-timestamp"), body); got != want || id == "" {
			t.Errorf("got the signature %s of %q, want %s", got, id, want)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.up.Load() {
			r.refused[id] = true
			http.Redirect(w, q, r.URL+"/elsewhere", http.StatusTemporaryRedirect) // which is not followed
			return
		}
		if q.URL.Path != "/hook" {
			t.Errorf("got a request for %s", q.URL.Path)
		}
		r.accepted = append(r.accepted, id)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

// senderTo returns a sender to a receiver.
func senderTo(r *receiver, log *slog.Logger, patience time.Duration) *sender {
	secret, _ := ReadSecret(exampleSecret)
	return newSender(&Webhook{URL: r.URL + "/hook", Secret: secret, Agent: "test", firstPause: time.Millisecond, patience: patience}, log, new(lossCounts))
}

// start sends until the test ends.
func (s *sender) start(t *testing.T) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// Events that a webhook does not accept arrive when it is up again, each under the ID of its first delivery, and once.
func TestWebhookThatWasDown(t *testing.T) {
	const events = 500
	r := newReceiver(t)
	log := new(text)
	s := senderTo(r, slog.New(slog.NewTextHandler(log, nil)), 0).start(t)
	var want []string
	for i := range events {
		want = append(want, fmt.Sprintf("event-%03d", i))
		s.add(want[i], []byte(`{}`))
	}
	testkit.Eventually(t, "every event to be refused twice", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.refused) == events && r.requests.Load() > 2*events
	})
	r.up.Store(true)
	testkit.Eventually(t, "all events to arrive", func() bool { return s.delivered.Load() == events })
	slices.Sort(r.accepted)
	if !slices.Equal(r.accepted, want) {
		t.Errorf("got %d events, want each of %d once", len(r.accepted), events)
	}
	testkit.Eventually(t, "that none waits", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.size == 0 && len(s.waiting) == 0 })
	got := log.String() // requests that were under way when it came up may end after others
	if n := strings.Count(got, "does not accept"); n < 1 || n > senders || strings.Count(got, "accepts events again") != n || strings.Contains(got, "/hook") {
		t.Errorf("unexpected log:\n%s", got)
	}
}

// What waits is bounded in number and in time, and what is dropped is counted.
func TestWebhookIsBounded(t *testing.T) {
	r := newReceiver(t)
	s := senderTo(r, slog.New(slog.DiscardHandler), 50*time.Millisecond)
	for i := range maxWaiting + 100 {
		s.add(fmt.Sprint(i), []byte(`{}`))
	}
	if full := s.lost[lostFull].Load(); full != 100 {
		t.Errorf("%d of 100 events too many were dropped at once", full)
	}
	s.start(t)
	testkit.Eventually(t, "all others to expire", func() bool { return s.lost[lostExpired].Load() == maxWaiting })
	if s.delivered.Load() != 0 {
		t.Error("an event was delivered")
	}
}

// An event is dropped after an hour, even if its turn never came because the webhook takes long to fail.
func TestWebhookThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(&Webhook{URL: "http://127.0.0.1:1", Agent: "test"}, slog.New(slog.DiscardHandler), new(lossCounts))
		s.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.run(ctx)
		for i := range maxWaiting {
			s.add(fmt.Sprint(i), nil)
		}
		time.Sleep(maxPatience - time.Second) // which takes no time here
		if got := s.lost[lostExpired].Load(); got != 0 {
			t.Errorf("%d events were dropped before their time", got)
		}
		time.Sleep(2*requestTimeout + time.Second)
		if got := s.lost[lostExpired].Load(); got != maxWaiting {
			t.Errorf("%d of %d events were dropped", got, maxWaiting)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.size != 0 || len(s.waiting) != 0 {
			t.Errorf("%d events wait, %d of them for their turn", s.size, len(s.waiting))
		}
	})
}

// At the end, what waits is sent once more.
func TestWebhookAtTheEnd(t *testing.T) {
	r := newReceiver(t)
	s := senderTo(r, slog.New(slog.DiscardHandler), 0).start(t)
	s.to.firstPause = time.Hour // for the events below
	for i := range 10 {
		s.add(fmt.Sprint(i), []byte(`{}`))
	}
	testkit.Eventually(t, "the first attempts", func() bool { return r.requests.Load() == 10 })
	testkit.Eventually(t, "all to wait", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.waiting) == 10 })
	r.up.Store(true)
	s.hurry()
	s.finish(t.Context())
	if got := s.delivered.Load(); got != 10 {
		t.Errorf("got %d events delivered, want 10", got)
	}
	s.add("late", nil)
	if got := s.lost[lostStopped].Load(); got != 1 {
		t.Errorf("got %d events dropped because of the end, want the late one", got)
	}
}

// The body is what the documentation says.
func TestEventAsJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := Event{ID: "x", Type: EventType, Time: at, Data: Near{
		Policy: "api", Key: "ann", Limit: "100/1m", Percent: 80, Used: 80, Of: 100, Reset: at.Add(time.Minute), Instance: "i",
	}}
	const want = `{"id":"x","type":"limit.near","timestamp":"2026-01-02T03:04:05Z","data":{"policy":"api","key":"ann","limit":"100/1m","percent":80,` +
		`"used":80,"of":100,"reset":"2026-01-02T03:05:05Z","instance":"i"}}`
	if got := string(e.encode()); got != want || !json.Valid([]byte(got)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
