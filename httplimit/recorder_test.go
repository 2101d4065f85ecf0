package httplimit

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

var errGone = errors.New("the client has gone")

// fullWriter is a response with all features of servers, each of which fails.
type fullWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (a *fullWriter) FlushError() error                            { return errGone }
func (a *fullWriter) SetWriteDeadline(t time.Time) error           { a.deadline = t; return errGone }
func (a *fullWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errGone }

// All features of a response work through the recorder, with their errors.
func TestRecorderPassesOn(t *testing.T) {
	below := &fullWriter{ResponseRecorder: httptest.NewRecorder()}
	c := &recorder{ResponseWriter: below}
	control := http.NewResponseController(c)
	if _, _, err := control.Hijack(); !errors.Is(err, errGone) || c.status != 0 {
		t.Errorf("Hijack returned %v, status %d; want %v, status 0", err, c.status, errGone)
	}
	if err := control.SetWriteDeadline(time.Unix(1, 0)); !errors.Is(err, errGone) || below.deadline != time.Unix(1, 0) {
		t.Errorf("SetWriteDeadline returned %v and set %v, want %v and %v", err, below.deadline, errGone, time.Unix(1, 0))
	}
	if err := control.Flush(); !errors.Is(err, errGone) || c.status != 200 {
		t.Errorf("Flush returned %v, status %d; want %v, status 200", err, c.status, errGone)
	}
}

// plain is a response without optional features.
type plain struct{ http.ResponseWriter }

// The recorder reports http.ErrNotSupported for features that the response below it lacks.
func TestRecorderWithoutFeatures(t *testing.T) {
	c := &recorder{ResponseWriter: plain{httptest.NewRecorder()}}
	control := http.NewResponseController(c)
	if _, _, err := control.Hijack(); !errors.Is(err, http.ErrNotSupported) || c.status != 0 {
		t.Errorf("Hijack returned %v, status %d; want http.ErrNotSupported, status 0", err, c.status)
	}
	if err := control.Flush(); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("Flush returned %v, want http.ErrNotSupported", err)
	}
	c.Flush() // the older method has no error
}

// hijackable is a response whose connection can be hijacked.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// The first status counts, except 1xx; a hijacked connection is 101, unless a status was written before.
func TestRecorderStatus(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(c *recorder)
		want int
	}{
		"nothing":            {func(*recorder) {}, 0},
		"early hints":        {func(c *recorder) { c.WriteHeader(103) }, 0},
		"switching":          {func(c *recorder) { c.WriteHeader(101); c.WriteHeader(200) }, 101},
		"200 is enough":      {func(c *recorder) { c.WriteHeader(200); c.WriteHeader(500) }, 200},
		"a body without":     {func(c *recorder) { _, _ = c.Write(nil); c.WriteHeader(500) }, 200},
		"hijacked":           {func(c *recorder) { _, _, _ = c.Hijack() }, 101},
		"hijacked after 200": {func(c *recorder) { c.WriteHeader(200); _, _, _ = c.Hijack() }, 200},
	} {
		c := &recorder{ResponseWriter: hijackable{httptest.NewRecorder()}}
		if test.do(c); c.status != test.want {
			t.Errorf("%s: got status %d, want %d", name, c.status, test.want)
		}
	}
}
