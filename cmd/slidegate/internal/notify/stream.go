package notify

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
)

const (
	maxStreams = 64               // open at a time
	maxBehind  = 1000             // events that a client may be behind, and that are kept for clients that come back
	maxAtOnce  = 32               // events that are held for a client which does not read
	aliveEvery = 15 * time.Second // a comment, so that both ends notice a connection that broke
	writeTime  = 10 * time.Second // for as many
)

// stream has the events that this process made lately, and the clients that follow them. The zero value is ready to use.
type stream struct {
	mu    sync.Mutex
	last  []sent // the newest last, at most maxBehind
	total int64  // events so far: last ends with this number
	open  int
	news  chan struct{} // closed by the next event; nil if no one is waiting
}

type sent struct {
	id   string
	body []byte
}

func (s *stream) publish(id string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) == maxBehind {
		s.last = append(s.last[:0:0], s.last[maxBehind/2:]...)
	}
	s.last = append(s.last, sent{id, body})
	s.total++
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// after returns the first events after a number and their last number, or a channel that is closed when there is one. A client that is too
// far behind misses the oldest.
func (s *stream) after(number int64) (events []sent, last int64, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < s.total {
		known := s.total - int64(len(s.last)) // the number before that of the first in last
		number = max(number, known)
		last = min(number+maxAtOnce, s.total)
		return append(events, s.last[number-known:last-known]...), last, nil
	}
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return nil, s.total, s.news
}

// numberOf returns the number of an event, or of the last one if it is not known.
func (s *stream) numberOf(id string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.last {
		if e.id == id && id != "" {
			return s.total - int64(len(s.last)-1-i)
		}
	}
	return s.total
}

// enter reports whether another client may follow.
func (s *stream) enter(by int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by > 0 && s.open >= maxStreams {
		return false
	}
	s.open += by
	return true
}

// ServeEvents serves GET /v1/events: the events that this process makes from now on, as server-sent events, until the client leaves or done
// is closed. A client that was connected before gets what it missed, as far as it is still known.
func (n *Notifier) ServeEvents(w http.ResponseWriter, r *http.Request, done <-chan struct{}) {
	s := &n.stream
	if !s.enter(1) {
		problemjson.Document{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("%d clients follow the events already, which is the maximum", maxStreams)}.Send(w)
		return
	}
	defer s.enter(-1)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // there is nothing more to read
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return
	}
	write := func(text string, events []sent) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := io.WriteString(w, text)
		for i := 0; i < len(events) && err == nil; i++ {
			_, err = fmt.Fprintf(w, "id: %s\nevent: %s\ndata: %s\n\n", events[i].id, EventType, events[i].body)
		}
		return err == nil && control.Flush() == nil
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	number := s.numberOf(r.Header.Get("Last-Event-ID"))
	for ok := write(": the events of this instance, from now on\n\n", nil); ok; {
		events, last, news := s.after(number)
		if number = last; news == nil {
			ok = write("", events) && !isClosed(done) // a client that reads slowly must not hold up the end
			continue
		}
		select {
		case <-news:
		case <-alive.C:
			ok = write(": alive\n\n", nil)
		case <-r.Context().Done():
			return
		case <-done:
			return
		}
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
