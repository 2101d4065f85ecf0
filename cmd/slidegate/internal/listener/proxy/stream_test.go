package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestNoOtherUpgrades: HTTP over a switched connection would bypass all limits.
func TestNoOtherUpgrades(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "upgrade=%q connection=%q settings=%q", r.Header.Get("Upgrade"), r.Header.Get("Connection"), r.Header.Get("Http2-Settings"))
	})
	r := newRig(t, to, unlimitedSettings())
	for _, protocol := range []string{"h2c", "TLS/1.0, HTTP/1.1", "websocket, h2c"} {
		got := r.send("GET", "/", "Upgrade", protocol, "Connection", "Upgrade, HTTP2-Settings", "HTTP2-Settings", "AAMAAABkAAQAAP__")
		if got.StatusCode != 200 || got.body != `upgrade="" connection="" settings=""` {
			t.Errorf("%s: got %s %s, want 200 without the three headers", protocol, got.Status, got.body)
		}
	}
}

// TestServerSentEvents: an event arrives while the handler waits for the client to receive it.
func TestServerSentEvents(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/x-ndjson"} {
		seen := make(chan bool)
		to := application(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n", i)
				w.(http.Flusher).Flush()
				select {
				case <-seen:
				case <-r.Context().Done():
					return
				}
			}
		})
		r := newRig(t, to, unlimitedSettings())
		got, err := r.http.Get("http://" + r.at + "/events")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(got.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			if err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("got %q, %v, want data: %d", line, err, i)
			}
			seen <- true
		}
		if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
			t.Errorf("after the events: got %q, %v, want EOF", rest, err)
		}
		got.Body.Close()
	}
}

// TestLargeBodies: large bodies pass in both directions without being held in memory.
func TestLargeBodies(t *testing.T) {
	const size, back = 100 << 20, 40 << 20
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		sum := crc32.NewIEEE()
		n, err := io.Copy(sum, r.Body)
		if err != nil || n != size {
			t.Errorf("got %d bytes at the application: %v", n, err)
		}
		w.Header().Set("X-Sum", fmt.Sprint(sum.Sum32()))
		for range back / len(chunk) {
			_, _ = w.Write(chunk)
		}
	})
	r := newRig(t, to, unlimitedSettings())
	var most atomic.Uint64
	measure := func() {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		most.Store(max(most.Load(), now.HeapAlloc))
	}
	runtime.GC() // the second one frees pooled buffers
	measure()
	before := most.Load()
	want := crc32.NewIEEE()
	part := 0
	upload := readerFunc(func(p []byte) (int, error) {
		if part == size {
			return 0, io.EOF
		}
		if part%(32<<20) == 0 {
			measure()
		}
		n := copy(p, chunk[part%len(chunk):])
		_, _ = want.Write(p[:n])
		part += n
		return n, nil
	})
	got, err := r.http.Post("http://"+r.at+"/", "application/octet-stream", upload)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.Header.Get("X-Sum") != fmt.Sprint(want.Sum32()) {
		t.Error("the application received something else than was sent")
	}
	taken, err := io.CopyN(io.Discard, got.Body, back/2)
	if err != nil {
		t.Fatal(err)
	}
	measure()
	rest, err := io.Copy(io.Discard, got.Body)
	if err != nil || taken+rest != back {
		t.Errorf("got %d bytes back: %v", taken+rest, err)
	}
	if held := int64(most.Load() - before); held > 8<<20 {
		t.Errorf("%d more bytes were held at a time", held)
	} else {
		t.Logf("at most %d more KiB were held while 140 MiB passed", held>>10)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTrailers(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		text, _ := io.ReadAll(r.Body)
		_, _ = w.Write(text)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Sent"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	})
	r := newRig(t, to, unlimitedSettings())
	request, _ := http.NewRequest("POST", "http://"+r.at+"/", io.MultiReader(strings.NewReader("body")))
	request.Trailer = http.Header{"X-Sent": {"at the end"}}
	got := r.do(request)
	if got.body != "body" || got.Trailer.Get("X-Sum") != "at the end" || got.Trailer.Get("X-Late") != "unannounced" {
		t.Errorf("got %q, trailers %v", got.body, got.Trailer)
	}
}

func TestInterimResponses(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
	})
	r := newRig(t, to, unlimitedSettings())
	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, header.Get("Link")))
		return nil
	}}
	request, _ := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "GET", "http://"+r.at+"/", nil)
	got := r.do(request)
	if got.StatusCode != 202 || got.Header.Get("Ratelimit") == "" || fmt.Sprint(hints) != "[103</style.css>]" {
		t.Errorf("got %s %v after the hints %v, want 202, RateLimit, and the hint 103 </style.css>", got.Status, got.Header, hints)
	}
}

func TestResponsesWithoutBody(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("ETag", `"v1"`)
			w.WriteHeader(304)
		default:
			w.Header().Set("Content-Length", "12345")
		}
	})
	r := newRig(t, to, unlimitedSettings())
	for _, c := range []struct {
		method, path string
		status       int
		length       int64
		etag         string
	}{{"GET", "/204", 204, 0, ""}, {"GET", "/304", 304, 0, `"v1"`}, {"HEAD", "/", 200, 12345, ""}} {
		got := r.send(c.method, c.path)
		if got.StatusCode != c.status || got.body != "" || c.length > 0 && got.ContentLength != c.length {
			t.Errorf("%s %s: got %s, length %d, body %q, want %d, length %d, no body",
				c.method, c.path, got.Status, got.ContentLength, got.body, c.status, c.length)
		}
		if got.Header.Get("Etag") != c.etag || got.Header.Get("Ratelimit") == "" {
			t.Errorf("%s %s: got %v, want Etag %q and RateLimit", c.method, c.path, got.Header, c.etag)
		}
	}
}

// TestProxyAddsNoRequestHeaders: the proxy adds neither Accept-Encoding nor User-Agent to requests.
func TestProxyAddsNoRequestHeaders(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.Header), r.Header["Accept-Encoding"], r.Header["User-Agent"], r.Header["Te"], r.Header["Keep-Alive"], r.Header["X-Hop"])
	})
	r := newRig(t, to, unlimitedSettings())
	got := r.sendRaw("GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: gzip\r\n\r\n")
	if got.body != "3 [] [] [] [] []" { // the three are X-Forwarded-
		t.Errorf("the application saw %s, want 3 [] [] [] [] []", got.body)
	}
}

// TestClientGoesAway: when the client disconnects, the application notices, and nothing waits for a response.
func TestClientGoesAway(t *testing.T) {
	came, gone := make(chan bool, 1), make(chan bool, 1)
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		came <- true
		select {
		case <-r.Context().Done():
			gone <- true
		case <-time.After(patience):
		}
	})
	r := newRig(t, to, unlimitedSettings())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", "http://"+r.at+"/", nil)
	ended := make(chan error, 1)
	go func() {
		_, err := r.http.Do(request)
		ended <- err
	}()
	receive(t, "the request arrives", came)
	cancel()
	receive(t, "the application notices", gone)
	if err := <-ended; err == nil {
		t.Error("got a response, want none")
	}
}
