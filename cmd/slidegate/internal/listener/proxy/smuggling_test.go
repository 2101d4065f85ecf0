package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/config"
)

// recorder is an application that records what it receives, byte by byte.
type recorder struct {
	net.Listener
	mu    sync.Mutex
	heads []string // of requests, verbatim
	all   sync.WaitGroup
}

func record(t *testing.T) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Listener: listener}
	r.all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.all.Go(func() { r.response(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		r.all.Wait()
	})
	return r
}

// response responds to the first request on a connection, and records its header.
func (r *recorder) response(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	in := bufio.NewReader(conn)
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		c, err := in.ReadByte()
		if err != nil {
			return
		}
		head = append(head, c)
	}
	r.mu.Lock()
	r.heads = append(r.heads, string(head))
	r.mu.Unlock()
	request, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), in)))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, request.Body); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	}
}

// ambiguity returns why two servers may disagree about where a request ends; empty if they cannot.
func ambiguity(head string) string {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	var lengths, encodings []string
	for _, line := range lines[1:] {
		name, value, found := strings.Cut(line, ":")
		switch {
		case strings.ContainsAny(line, "\r\n\v\f\x00"):
			return "a line has a control character in it"
		case !found || name != strings.TrimSpace(name) || name == "":
			return fmt.Sprintf("the line %q is not a header", line)
		}
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Content-Length":
			lengths = append(lengths, strings.TrimSpace(value))
		case "Transfer-Encoding":
			encodings = append(encodings, strings.TrimSpace(value))
		}
	}
	switch {
	case strings.ContainsAny(lines[0], "\r\n\v\f\x00") || strings.Count(lines[0], " ") != 2:
		return "the first line can be read in two ways"
	case len(lengths) > 1 || len(encodings) > 1 || len(lengths)+len(encodings) > 1:
		return fmt.Sprintf("the lengths are %q and the encodings %q", lengths, encodings)
	case len(encodings) == 1 && encodings[0] != "chunked":
		return fmt.Sprintf("the encoding is %q", encodings[0])
	case len(lengths) == 1 && strings.Trim(lengths[0], "0123456789") != "":
		return fmt.Sprintf("the length is %q", lengths[0])
	}
	return ""
}

const hidden = "POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"

// smuggledRequests returns requests that try to hide another request that only the application sees, and whether they must be rejected.
func smuggledRequests() map[string]bool {
	refused, either := map[string]bool{}, map[string]bool{}
	post := func(headers, body string) string { return "POST /x HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n" + body }
	for _, length := range []string{"+4", "-4", "0x4", "4,5", "4 5", "4;", "4.0", "four", "99999999999999999999", "4\x00"} {
		refused[post("Content-Length: "+length+"\r\n", hidden)] = true
	}
	for _, encoding := range []string{"xchunked", "chunked, identity", "identity", "\vchunked", "chunked\x00", "gzip, chunked", "chunked chunked", "\"chunked\"", "x"} {
		refused[post("Transfer-Encoding: "+encoding+"\r\n", "0\r\n\r\n"+hidden)] = true
	}
	for _, headers := range []string{
		"Content-Length: 4\r\nContent-Length: 5\r\n", "Content-Length: 0\r\nContent-Length: 4\r\n", "Content-Length : 4\r\n", "Transfer-Encoding : chunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "Content-Length: 4\rX: y\r\n", "Content-Length\r\n", ": chunked\r\n", "X:\x00y\r\n",
	} {
		refused[post(headers, "0\r\n\r\n"+hidden)] = true
	}
	for _, chunks := range []string{
		"12345678901234567\r\nx", "-1\r\n", "0x1\r\nx\r\n0\r\n\r\n", "4\nabcd\r\n0\r\n\r\n", "1;a\nb\r\nx\r\n0\r\n\r\n", "zz\r\n", "\r\n0\r\n\r\n", "1\r\nxy\r\n0\r\n\r\n",
	} {
		either[post("Transfer-Encoding: chunked\r\n", chunks+hidden)] = false
	}
	for _, headers := range []string{
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 50\r\n", "Transfer-Encoding: CHUNKED\r\n",
		"Transfer-Encoding:\tchunked\r\n", "Transfer_Encoding: chunked\r\n", "Content-Length: 4\r\nContent-Length: 4\r\n", "Content-Length: 0\r\nX: y\n\r\n",
		"Content-Length: 0\nTransfer-Encoding: chunked\r\n", "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "Connection: Content-Length\r\nContent-Length: 4\r\n",
		"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
	} {
		either[post(headers, "0\r\n\r\n"+hidden)] = false
	}
	for text, must := range refused {
		either[text] = must
	}
	return either
}

// TestNoRequestIsSmuggled: however the length of a request is written, the application cannot find more requests in it than were charged.
func TestNoRequestIsSmuggled(t *testing.T) {
	app := record(t)
	r := newRig(t, "http://"+app.Addr().String(), settings{policies: []config.Policy{policy("login", "POST /login", "1/1h"), policy("x", "/", "1000/1h")}})
	if got := r.send("POST", "/login"); got.StatusCode != 200 {
		t.Fatalf("the first login: got %s, want 200", got.Status)
	}
	i, never := 0, map[string]string{}
	for text, must := range smuggledRequests() {
		i++
		target := fmt.Sprintf("POST /x%d ", i)
		statuses := r.statuses(strings.Replace(text, "POST /x ", target, 1))
		if !must {
			continue
		}
		never[target] = text
		if !slices.Contains([]int{400, 501}, statuses[0]) {
			t.Errorf("%q: got %v, want 400 or 501", text, statuses)
		}
	}
	r.stop() // no request is in progress
	app.mu.Lock()
	defer app.mu.Unlock()
	logins := 0
	for _, head := range app.heads {
		if why := ambiguity(head); why != "" {
			t.Errorf("the application got %q: %s", head, why)
		}
		for target, text := range never {
			if strings.HasPrefix(head, target) {
				t.Errorf("%q: the application got %q, want nothing", text, head)
			}
		}
		if strings.HasPrefix(head, "POST /login ") {
			logins++
		}
	}
	if logins != 1 {
		t.Errorf("got %d logins at the application, want 1", logins)
	}
	if len(app.heads) < 5 {
		t.Errorf("got only %d requests at the application: the test was not effective", len(app.heads))
	}
}

// statuses sends bytes verbatim, closes its sending side, and returns the statuses of all responses; 0 if there is none.
func (r *rig) statuses(text string) (all []int) {
	r.t.Helper()
	conn := r.dial()
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	reader := bufio.NewReader(conn)
	for {
		got, err := http.ReadResponse(reader, &http.Request{Method: http.MethodPost})
		if err != nil {
			return append(all, 0)
		}
		_, _ = io.Copy(io.Discard, got.Body)
		all = append(all, got.StatusCode)
	}
}
