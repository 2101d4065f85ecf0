package memcached

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore/serverclock"
	"github.com/slidegate/slidegate/rule"
)

// clock is what an engine decides by.
type clock interface {
	now() rule.Micros
	skew() time.Duration
	serverSeconds() int64 // by memcached's clock for expiry
	close()
}

// machineClock is the clock of this machine.
type machineClock struct{}

func (machineClock) now() rule.Micros     { return rule.Micros(time.Now().UnixMicro()) }
func (machineClock) skew() time.Duration  { return 0 }
func (machineClock) serverSeconds() int64 { return time.Now().Unix() }
func (machineClock) close()               {}

// serverClock is the clock of a server. memcached has a second one, for expiry: it counts from the server's start, and is not set when
// the first one is.
type serverClock struct {
	*serverclock.Clock
	dial   func(context.Context) (net.Conn, error)
	expiry atomic.Pointer[seconds]
}

// seconds is what the clock for expiry showed.
type seconds struct {
	shown int64
	at    time.Time
}

func openServerClock(ctx context.Context, client *memcache.Client, addr string) (*serverClock, error) {
	dial, network := client.DialContext, "tcp"
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	if strings.Contains(addr, "/") {
		network = "unix"
	}
	c := &serverClock{dial: func(ctx context.Context) (net.Conn, error) { return dial(ctx, network, addr) }}
	var err error
	if c.Clock, err = serverclock.Start(ctx, c.look); err != nil {
		return nil, fmt.Errorf("memcached: the clock of the server: %w", err)
	}
	return c, nil
}

func (c *serverClock) now() rule.Micros    { return c.Now() }
func (c *serverClock) skew() time.Duration { return c.Error() }
func (c *serverClock) close()              { c.Stop() }

func (c *serverClock) serverSeconds() int64 {
	seen := c.expiry.Load()
	return seen.shown + int64(time.Since(seen.at)/time.Second) + 1
}

// questions is how many times a look asks.
const questions = 3

// look watches the server's log of reads, reads a few names that do not exist, and finds in the log when the server was asked for them.
// It skips lines about what others read.
func (c *serverClock) look(ctx context.Context) ([]serverclock.Reading, error) {
	watcher, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer watcher.close()
	if line, err := watcher.ask("watch fetchers\r\n"); err != nil {
		return nil, err
	} else if line != "OK" {
		return nil, fmt.Errorf("it refuses to be watched: %q; start it without -W, or set MachineClock", line)
	}
	asker, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer asker.close()
	if err := c.readSeconds(asker); err != nil {
		return nil, err
	}
	asked := map[string]serverclock.Reading{}
	for range questions {
		name, r := "slidegate-clock-"+rand.Text(), serverclock.Reading{Sent: time.Now()}
		line, err := asker.ask("get " + name + "\r\n")
		if err != nil {
			return nil, err
		}
		if r.Heard = time.Now(); line != "END" {
			return nil, fmt.Errorf("it answers %q to get", line)
		}
		asked[name] = r
	}
	return watcher.find(asked)
}

// readSeconds reads the server's clock for expiry.
func (c *serverClock) readSeconds(asker *conn) error {
	line, err := asker.ask("stats\r\n")
	found := false
	for ; err == nil && line != "END"; line, err = asker.line() {
		if text, is := strings.CutPrefix(line, "STAT time "); is {
			shown, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("it says that its time is %q", text)
			}
			c.expiry.Store(&seconds{shown, time.Now()})
			found = true
		} else if !strings.HasPrefix(line, "STAT ") {
			return fmt.Errorf("it answers %q to stats", line)
		}
	}
	if err == nil && !found {
		err = errors.New("its stats have no time")
	}
	return err
}

// conn is a connection of a look.
type conn struct {
	net  net.Conn
	read *bufio.Reader
	stop func() bool
}

// connect returns a connection that ends with ctx.
func (c *serverClock) connect(ctx context.Context) (*conn, error) {
	n, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = n.SetDeadline(time.Unix(1, 0)) })
	return &conn{n, bufio.NewReader(n), stop}, nil
}

func (c *conn) close() {
	c.stop()
	_ = c.net.Close()
}

// ask sends a command and returns the first line of the answer.
func (c *conn) ask(command string) (string, error) {
	if _, err := c.net.Write([]byte(command)); err != nil {
		return "", err
	}
	return c.line()
}

func (c *conn) line() (string, error) {
	line, err := c.read.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// find reads the log until it has found everything that was asked, and returns the readings.
func (c *conn) find(asked map[string]serverclock.Reading) (found []serverclock.Reading, err error) {
	for len(found) < len(asked) {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		at, name, ok := parseSeen(line)
		if r, ours := asked[name]; ok && ours {
			r.Shown = at
			found = append(found, r)
		}
	}
	return found, nil
}

// parseSeen parses a line of the log such as "ts=1794849424.77975 gid=2 type=item_get key=name status=not_found". The digits after the
// point are a number of microseconds without leading zeros: .77975 means .077975.
func parseSeen(line string) (at time.Time, name string, ok bool) {
	var micros int64
	for field := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "ts":
			whole, part, _ := strings.Cut(value, ".")
			seconds, err := strconv.ParseInt(whole, 10, 64)
			if err != nil {
				return at, "", false
			}
			if micros, err = strconv.ParseInt(part, 10, 64); err != nil {
				return at, "", false
			}
			at = time.Unix(seconds, micros*1_000)
		case "key":
			name = value
		}
	}
	return at, name, !at.IsZero() && name != ""
}
