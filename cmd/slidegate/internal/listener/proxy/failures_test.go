package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

// rawApplication handles each connection with a function.
func rawApplication(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var open atomic.Int64
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			go func() {
				defer open.Add(-1)
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				serve(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
		testkit.Eventually(t, "all connections of the application are closed", func() bool { return open.Load() == 0 })
	})
	return "http://" + listener.Addr().String()
}

func readHead(conn net.Conn) {
	for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != ""; {
	}
}

// TestUnreachableApplicationIs502: if nothing listens, the response is 502, and the unit is still taken.
func TestUnreachableApplicationIs502(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := "http://" + listener.Addr().String()
	listener.Close()
	r := newRig(t, to, settings{policies: []config.Policy{policy("p", "", "1/1h")}})
	got := r.send("GET", "/")
	if got.StatusCode != 502 || got.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.body, `"status":502`) ||
		strings.Contains(got.body, strings.TrimPrefix(to, "http://")) {
		t.Errorf("got %s %v %s, want 502 as application/problem+json, without the application's address", got.Status, got.Header, got.body)
	}
	if got := r.send("GET", "/"); got.StatusCode != 429 {
		t.Errorf("got %s, want 429: the unit was refunded", got.Status)
	}
}

func TestApplicationHangs(t *testing.T) {
	to := rawApplication(t, func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn) // until the proxy gives up
	})
	s := unlimitedSettings()
	s.opts.Timeout = 50 * time.Millisecond
	if got := newRig(t, to, s).send("GET", "/"); got.StatusCode != 504 || !strings.Contains(got.body, `"status":504`) {
		t.Errorf("got %s %s, want 504", got.Status, got.body)
	}
}

func TestApplicationCuts(t *testing.T) {
	for answer, status := range map[string]int{
		"":                               502, // nothing at all
		"HTTP/1.1 200":                   502, // half a line
		"rubbish\r\n\r\n":                502,
		"HTTP/1.1 101 Switching\r\n\r\n": 502, // not requested
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf":                        0, // the client must not take it for complete
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n4\r\nx": 0,
	} {
		to := rawApplication(t, func(conn net.Conn) {
			readHead(conn)
			_, _ = io.WriteString(conn, answer)
		})
		r := newRig(t, to, unlimitedSettings())
		request, _ := http.NewRequest("POST", "http://"+r.at+"/", nil) // POST is not retried
		got, err := r.http.Do(request)
		if err == nil {
			_, err = io.ReadAll(got.Body)
			got.Body.Close()
		}
		switch {
		case status == 0 && err == nil:
			t.Errorf("%q: got %s, as if the response were complete", answer, got.Status)
		case status > 0 && (err != nil || got.StatusCode != status):
			t.Errorf("%q: got %v, %v, want status %d", answer, got, err, status)
		}
	}
}

// TestAmbiguousLengthsAreRejected: requests whose end two parsers could see in different places are rejected.
func TestAmbiguousLengthsAreRejected(t *testing.T) {
	var arrived atomic.Int64
	r := newRig(t, application(t, func(http.ResponseWriter, *http.Request) { arrived.Add(1) }), unlimitedSettings())
	for _, head := range []string{
		"Content-Length: 5\r\nContent-Length: 6\r\n",
		"Content-Length: +5\r\n",
		"Content-Length: 5, 5\r\n",
		"Transfer-Encoding: xchunked\r\n",
		"Transfer-Encoding: chunked, identity\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"X: 1\r\n folded\r\nContent Length: 5\r\n",
		"Transfer-Encoding : chunked\r\n",
	} {
		got := r.sendRaw("POST / HTTP/1.1\r\nHost: h\r\n" + head + "\r\n0\r\n\r\n")
		if got.StatusCode != 400 && got.StatusCode != 501 {
			t.Errorf("%q: got %s, want 400 or 501", head, got.Status)
		}
	}
	if arrived.Load() != 0 {
		t.Errorf("got %d requests at the application, want none", arrived.Load())
	}
}

// TestTransferEncodingTakesPrecedence: given Transfer-Encoding and Content-Length, net/http uses the former, and the application
// receives only that. What a parser that uses the latter would take for the rest of a body is a separate request, and is charged.
func TestTransferEncodingTakesPrecedence(t *testing.T) {
	arrived := make(chan string, 4)
	r := newRig(t, application(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		arrived <- fmt.Sprintf("%s %s %v %q %s", r.Method, r.URL.Path, r.TransferEncoding, r.Header["Content-Length"], text)
	}), settings{policies: []config.Policy{policy("p", "", "1/1h")}})
	conn := r.dial()
	_, err := io.WriteString(conn, "POST /first HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"1\r\nx\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	everything, err := io.ReadAll(conn)
	if err != nil || strings.Count(string(everything), "HTTP/1.1 200") != 1 || strings.Count(string(everything), "HTTP/1.1 429") != 1 {
		t.Errorf("got %v, %s\nwant one response 200 and one 429", err, everything)
	}
	if got := receive(t, "the first", arrived); got != "POST /first [chunked] [] x" {
		t.Errorf("got %s at the application", got)
	}
	if len(arrived) > 0 {
		t.Errorf("got another request at the application: %s", <-arrived)
	}
}

func TestInvalidTargetsAreRejected(t *testing.T) {
	var arrived atomic.Int64
	r := newRig(t, application(t, func(http.ResponseWriter, *http.Request) { arrived.Add(1) }), unlimitedSettings())
	for line, status := range map[string]int{
		"CONNECT h:80":     405,
		"CONNECT //login":  405, // http.ServeMux does not clean it
		"GET *":            400,
		"GET x:%2Flogin":   400,
		"GET login":        400,
		"GET http:login":   400,
		"GET /%zz":         400,
		"GET / HTTP/1.1\r": 400,
	} {
		if got := r.sendRaw(line + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); got.StatusCode != status ||
			strings.ContainsAny(line, ":*") && got.Header.Get("Content-Type") != "application/problem+json" { // from the proxy, not the application
			t.Errorf("%s: got %s %v %s, want %d, as application/problem+json if the proxy responds", line, got.Status, got.Header, got.body, status)
		}
	}
	if arrived.Load() != 0 {
		t.Errorf("got %d requests at the application, want none", arrived.Load())
	}
}

// TestOptionsOfAll: OPTIONS * is limited, and forwarded.
func TestOptionsOfAll(t *testing.T) {
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{policy("p", "/", "1/1h")}})
	text := "OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	if got := r.sendRaw(text); got.StatusCode != 200 || !strings.HasPrefix(got.body, "OPTIONS * host=h ") {
		t.Errorf("got %s %s, want 200 and OPTIONS * host=h", got.Status, got.body)
	}
	if got := r.sendRaw(text); got.StatusCode != 429 {
		t.Errorf("got %s, want 429", got.Status)
	}
}

// TestIncompleteBodyIsTheClientsFault: an incomplete body is the client's fault, not the application's.
func TestIncompleteBodyIsTheClientsFault(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	got := newRig(t, to, unlimitedSettings()).sendRaw("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nrubbish\r\n")
	if got.StatusCode != 400 {
		t.Errorf("got %s %s, want 400", got.Status, got.body)
	}
}
