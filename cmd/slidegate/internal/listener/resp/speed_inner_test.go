package resp

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
)

// loop is a connection that returns the same bytes repeatedly, and discards what is written.
type loop struct {
	net.Conn
	text  []byte
	rest  []byte
	turns int
}

func (l *loop) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (l *loop) Read(to []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.turns == 0 {
			return 0, io.EOF
		}
		l.turns--
		l.rest = l.text
	}
	n := copy(to, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *loop) Write(b []byte) (int, error)      { return len(b), nil }
func (l *loop) SetReadDeadline(time.Time) error  { return nil }
func (l *loop) SetWriteDeadline(time.Time) error { return nil }

func benchServer(t testing.TB, opts Options) *Server {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse("policies.yaml", []byte("policies: {default: {key: \"{address}\", limits: [1000000000/1h]}}"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(file, store, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	throttle, err := slidegate.New(slidegate.Namespace(store, "cl.throttle"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(g, throttle, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		_ = g.Close()
	})
	return s
}

// commandsOf returns a pipeline of n commands with different keys.
func commandsOf(n int, format string) []byte {
	var b strings.Builder
	for i := range n {
		words := strings.Fields(fmt.Sprintf(format, fmt.Sprintf("key:%012d", i*7919%100_000)))
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	return []byte(b.String())
}

// The one allocation per command is its key, which layers below may retain.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const pipeline, turns = 64, 200
	for _, c := range []struct {
		command string
		batch   bool
	}{{"SG.ALLOW default %s", false}, {"SG.ALLOW default %s", true}, {"SG.ALLOW default %s 2", false}, {"CL.THROTTLE %s 15 30 60", false}} {
		s := benchServer(t, Options{Batch: c.batch})
		text := commandsOf(pipeline, c.command)
		got := testing.AllocsPerRun(5, func() {
			newConn(s, &loop{text: text, turns: turns}, 1).serve()
		}) / (pipeline * turns)
		if got > 1.02 { // a connection and the table take a few
			t.Errorf("%s, batch %v: got %.2f allocations per command, want 1", c.command, c.batch, got)
		}
	}
}

func BenchmarkServe(b *testing.B) {
	for _, c := range []struct {
		name, command string
		pipeline      int
		batch         bool
	}{
		{"allow-1", "SG.ALLOW default %s", 1, false},
		{"allow-64", "SG.ALLOW default %s", 64, false},
		{"allow-64-batch", "SG.ALLOW default %s", 64, true},
		{"throttle-64", "CL.THROTTLE %s 15 30 60", 64, false},
		{"ping-64", "PING %s", 64, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchServer(b, Options{Batch: c.batch})
			text := commandsOf(c.pipeline, c.command)
			b.ReportAllocs()
			b.ResetTimer()
			newConn(s, &loop{text: text, turns: b.N/c.pipeline + 1}, 1).serve()
		})
	}
}
