package stores_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

// hostileReplies are replies that no Redis sends. A client that believes them runs out of memory or stack, or panics.
var hostileReplies = map[string]string{
	"a long array":            "*2147483647\r\n",
	"a long array, less":      "*100000000\r\n",
	"a longer array":          "*9223372036854775807\r\n",
	"an array below 0":        "*-2\r\n",
	"a long text":             "$2147483647\r\n",
	"a longer text":           "$9223372036854775807\r\n",
	"a text below 0":          "$-7\r\n",
	"a long map":              "%2147483647\r\n",
	"a map below 0":           "%-1\r\n",
	"a map that wraps around": "%4611686018427387904\r\n",
	"a long set":              "~2147483647\r\n",
	"a long verbatim text":    "=2147483647\r\n",
	"a long error":            "!2147483647\r\n",
	"long attributes":         "|2147483647\r\n",
	"a long push":             ">2147483647\r\n",
	"nested":                  strings.Repeat("*1\r\n", 3_000_000),
	"nested maps":             strings.Repeat("%1\r\n+a\r\n", 3_000_000),
	"nested sets":             strings.Repeat("~1\r\n", 3_000_000),
	"attributes for ever":     strings.Repeat("|0\r\n", 3_000_000),
	"many long arrays":        strings.Repeat("*200000\r\n", 1000),
	"a stream":                "$?\r\n;2147483647\r\n",
	"an array without end":    "*?\r\n" + strings.Repeat("*?\r\n", 3_000_000),
	"a line without end":      "+" + strings.Repeat("x", 100_000_000),
	"a null that goes on":     "_*2147483647\r\n",
	"a boolean that goes on":  "#true\r\n*2147483647\r\n",
	"moved nowhere":           "-MOVED\r\n",
	"moved to a slot":         "-MOVED 1\r\n",
	"ask nowhere":             "-ASK 1\r\n",
	"redirect nowhere":        "-REDIRECT\r\n",
	"moved, as a text":        "!7\r\nMOVED 1\r\n",
	"two replies":             "+OK\r\n+OK\r\n",
	"many replies":            strings.Repeat(":1\r\n", 10_000),
	"a subscription":          ">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
	"a push in an array":      "*2\r\n>2\r\n+a\r\n+b\r\n+c\r\n",
	"an empty line":           "\r\n",
	"zeros":                   strings.Repeat("\x00", 1_000_000),
	"a web server":            "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
	"the end":                 "",
	"silence":                 silence,
}

const silence = "sends nothing"

// hostileServer sends one text in reply to everything; if polite, only after the client's initial commands.
type hostileServer struct {
	net.Listener
	answer string
	polite bool
	conns  sync.WaitGroup
	sent   atomic.Bool // the whole reply was sent, or the client has closed the connection
}

func startHostile(t *testing.T, answer string, polite bool) *hostileServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &hostileServer{Listener: listener, answer: answer, polite: polite}
	s.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.serve(conn) })
		}
	})
	return s
}

func (s *hostileServer) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		answer := s.answer
		switch {
		case !s.polite || command == "EVALSHA" || command == "PING":
		case command == "HELLO":
			answer = "%2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n"
		case command == "CLUSTER":
			port := s.Addr().(*net.TCPAddr).Port
			answer = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$1\r\nx\r\n", port)
		default:
			answer = "+OK\r\n"
		}
		if answer == silence {
			s.sent.Store(true)
			continue
		}
		_, err = io.WriteString(conn, answer)
		if answer == s.answer {
			s.sent.Store(true)
		}
		if err != nil || answer == "" {
			return
		}
	}
}

// readCommand returns the name of the next command.
func readCommand(r *bufio.Reader) (name string, err error) {
	number := func() (n int) {
		line, failed := r.ReadString('\n')
		if err = failed; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for i, n := 0, number(); i < n && err == nil; i++ {
		text := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, text)
		}
		if i == 0 {
			name = strings.ToUpper(string(bytes.TrimSpace(text)))
		}
	}
	return name, err
}

// TestHostileRepliesDoNoHarm: whatever a server replies, and whenever, the process survives, the store opens within a second, and the
// failure modes decide.
func TestHostileRepliesDoNoHarm(t *testing.T) {
	for name, answer := range hostileReplies {
		for _, polite := range []bool{false, true} {
			for _, scheme := range []string{"redis", "redis+cluster"} {
				t.Run(fmt.Sprintf("%s/%s/polite=%v", name, scheme, polite), func(t *testing.T) {
					testHostile(t, scheme, answer, polite)
				})
			}
		}
	}
}

func testHostile(t *testing.T, scheme, answer string, polite bool) {
	server := startHostile(t, answer, polite)
	before := time.Now()
	o, err := stores.Open(ctx, scheme+"://"+server.Addr().String(), hasty())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(before); took > 900*time.Millisecond {
		t.Errorf("Open took %v", took)
	}
	for range 3 {
		if d := allow(t, limiter(t, o.Closed, "hostile")); d.Allowed || d.Flags != rule.FallbackClosed {
			t.Errorf("closed: got %+v, want a refusal by the fallback", d)
		}
		if d := allow(t, limiter(t, o.Open, "hostile")); !d.Allowed || d.Flags != rule.FallbackOpen {
			t.Errorf("open: got %+v, want it admitted by the fallback", d)
		}
	}
	testkit.Eventually(t, "the client has read the reply, or closed the connection", server.sent.Load)
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	server.Close()
	server.conns.Wait()
}
