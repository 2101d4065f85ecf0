package notify

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Webhook is a receiver of events, over HTTP and signed as Standard Webhooks describes.
type Webhook struct {
	URL    string
	Secret []byte // with which requests are signed, until Notifier.SetSecret changes it
	Agent  string // the User-Agent

	firstPause, patience time.Duration // set by tests; 0 means the constants
}

const (
	secretMark = "whsec_" // precedes a secret in base64
	minSecret  = 24       // bytes
	maxSecret  = 64

	maxWaiting     = 10_000           // events that wait for the webhook
	maxPatience    = time.Hour        // for one event
	senders        = 4                // requests at a time
	requestTimeout = 10 * time.Second // of one request
	firstPause     = time.Second      // before the first repetition; it doubles
	lastPause      = time.Minute
	maxAnswer      = 64 << 10 // bytes that are read of a response, so that its connection can be used again
)

// CheckURL returns an error for a text that is not the URL of a webhook.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" {
		return errors.New("must be a URL such as https://example.com/hooks/slidegate") // without the text, which may contain a secret
	}
	return nil
}

// ReadSecret reads a secret as Standard Webhooks writes it.
func ReadSecret(text string) ([]byte, error) {
	encoded, marked := strings.CutPrefix(strings.TrimSpace(text), secretMark)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !marked || err != nil || len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("must be %s and %d to %d bytes in base64; make one with: echo %s$(openssl rand -base64 32)", secretMark, minSecret, maxSecret, secretMark)
	}
	return secret, nil
}

// sign returns the signature of a message.
func sign(secret []byte, id, timestamp string, body []byte) string {
	sum := hmac.New(sha256.New, secret)
	fmt.Fprintf(sum, "%s.%s.", id, timestamp)
	sum.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// sender sends events to a webhook until it accepts them.
type sender struct {
	to        Webhook
	log       *slog.Logger
	client    *http.Client
	secret    atomic.Pointer[[]byte]
	delivered atomic.Int64
	lost      *lossCounts
	wake      chan struct{}
	slots     chan struct{} // one for each request under way
	sending   sync.WaitGroup

	mu       sync.Mutex
	waiting  deliveries
	size     int  // waiting and under way
	ending   bool // nothing is tried again
	closed   bool // nothing is added
	failing  bool // since the last response that accepted an event
	finished chan struct{}
}

// delivery is an event that the webhook has not accepted yet.
type delivery struct {
	id    string
	body  []byte
	made  time.Time
	due   time.Time
	pause time.Duration
}

func newSender(to *Webhook, log *slog.Logger, lost *lossCounts) *sender {
	s := &sender{to: *to, log: log, lost: lost, wake: make(chan struct{}, 1), slots: make(chan struct{}, senders), finished: make(chan struct{})}
	s.secret.Store(&to.Secret)
	if s.to.firstPause == 0 {
		s.to.firstPause = firstPause
	}
	if s.to.patience == 0 {
		s.to.patience = maxPatience
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = senders, senders
	s.client = &http.Client{
		Transport: transport, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a signed body goes only where the operator said
	}
	return s
}

// add sends an event soon, unless too many wait.
func (s *sender) add(id string, body []byte) {
	now := time.Now()
	s.mu.Lock()
	full, closed := s.size >= maxWaiting, s.closed
	if !full && !closed {
		s.size++
		heap.Push(&s.waiting, &delivery{id: id, body: body, made: now, due: now, pause: s.to.firstPause})
	}
	s.mu.Unlock()
	switch {
	case closed:
		s.lost[lostStopped].Add(1)
	case full:
		s.lost[lostFull].Add(1)
	default:
		s.notice()
	}
}

// notice makes run look at what waits.
func (s *sender) notice() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	defer s.sending.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		for {
			d, wait := s.next()
			if d == nil {
				timer.Reset(wait)
				break
			}
			select {
			case <-ctx.Done():
				s.end(lostStopped)
				return
			case s.slots <- struct{}{}:
			}
			s.sending.Go(func() {
				s.send(ctx, d)
				<-s.slots
			})
		}
	}
}

// next takes the first delivery that is due, or returns how long to wait for one. It drops those that are too old.
func (s *sender) next() (*delivery, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for now := time.Now(); len(s.waiting) > 0; {
		if wait := s.waiting[0].due.Sub(now); wait > 0 {
			return nil, wait
		}
		d := heap.Pop(&s.waiting).(*delivery)
		if now.Sub(d.made) < s.to.patience {
			return d, 0
		}
		s.endLocked(lostExpired)
	}
	return nil, time.Hour
}

// send makes one attempt.
func (s *sender) send(ctx context.Context, d *delivery) {
	err := s.post(ctx, d)
	s.report(err)
	if err == nil {
		s.delivered.Add(1)
		s.end(-1)
		return
	}
	now := time.Now()
	s.mu.Lock()
	ending := s.ending || ctx.Err() != nil
	if !ending && now.Sub(d.made) < s.to.patience {
		d.due = now.Add(d.pause - d.pause/4 + rand.N(d.pause/2+1))
		d.pause = min(2*d.pause, lastPause)
		heap.Push(&s.waiting, d)
		s.mu.Unlock()
		s.notice()
		return
	}
	s.mu.Unlock()
	if ending {
		s.end(lostStopped)
	} else {
		s.end(lostExpired)
	}
}

// end forgets a delivery, and counts why it was dropped, unless that is -1.
func (s *sender) end(why int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(why)
}

func (s *sender) endLocked(why int) {
	if why >= 0 {
		s.lost[why].Add(1)
	}
	if s.size--; s.size == 0 && s.closed {
		close(s.finished)
	}
}

// post sends a request, and returns an error unless the webhook accepts it.
func (s *sender) post(ctx context.Context, d *delivery) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.URL, bytes.NewReader(d.body))
	if err != nil {
		return errors.New("invalid URL")
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", s.to.Agent)
	r.Header.Set("webhook-id", d.id)
	r.Header.Set("webhook-timestamp", timestamp)
	r.Header.Set("webhook-signature", sign(*s.secret.Load(), d.id, timestamp, d.body))
	response, err := s.client.Do(r)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // without the URL, which may contain a secret
		}
		return err
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	_ = response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("it responded %s", response.Status)
	}
	return nil
}

// report logs when the webhook begins to fail, and when it works again.
func (s *sender) report(err error) {
	s.mu.Lock()
	changed := s.failing != (err != nil)
	s.failing = err != nil
	waiting := s.size
	s.mu.Unlock()
	switch {
	case changed && err != nil:
		s.log.Warn("the webhook does not accept events; they are sent again", slog.Any("error", err), slog.Int("waiting", waiting))
	case changed:
		s.log.Info("the webhook accepts events again", slog.Int("waiting", waiting))
	}
}

// hurry makes a last attempt to send everything that waits, and one for each event that is still added.
func (s *sender) hurry() {
	s.mu.Lock()
	s.ending = true
	for _, d := range s.waiting {
		d.due = time.Time{}
	}
	s.mu.Unlock()
	s.notice()
}

// finish waits, after hurry, until everything has had its last attempt or ctx ends, and drops the rest.
func (s *sender) finish(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	none := s.size == 0
	s.mu.Unlock()
	if !none {
		select {
		case <-s.finished:
			return
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[lostStopped].Add(int64(len(s.waiting)))
	s.size -= len(s.waiting)
	s.waiting = nil
}

// deliveries is a heap with the delivery that is due first on top.
type deliveries []*delivery

func (h deliveries) Len() int           { return len(h) }
func (h deliveries) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h deliveries) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *deliveries) Push(x any) { *h = append(*h, x.(*delivery)) }

// Pop implements heap.Interface.
func (h *deliveries) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
