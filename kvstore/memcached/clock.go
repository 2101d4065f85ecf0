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

	"github.com/slidegate/slidegate/internal/serverclock"
)

// serverClock is the clock of a server. memcached has a second clock, for expiry: it counts from the server's start, and is not
// adjusted when the first one is set.
type serverClock struct {
	*serverclock.Clock
	dial   func(context.Context) (net.Conn, error)
	expiry atomic.Pointer[seconds]
}

// seconds is a reading of the clock for expiry.
type seconds struct {
	unix int64
	at   time.Time
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
	if c.Clock, err = serverclock.Start(ctx, c.readClock); err != nil {
		return nil, fmt.Errorf("memcached: reading the server's clock: %w", fault(err))
	}
	return c, nil
}

// serverSeconds returns the time by memcached's clock for expiry.
func (c *serverClock) serverSeconds() int64 {
	seen := c.expiry.Load()
	return seen.unix + int64(time.Since(seen.at)/time.Second) + 1
}

// probes is the number of readings per call of readClock.
const probes = 3

// readClock watches the server's log of reads, reads a few names that do not exist, and finds in the log when the server received
// those reads. It skips lines about other reads.
func (c *serverClock) readClock(ctx context.Context) ([]serverclock.Reading, error) {
	watcher, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer watcher.close()
	if line, err := watcher.call("watch fetchers\r\n"); err != nil {
		return nil, err
	} else if line != "OK" {
		return nil, fmt.Errorf("the server rejects \"watch\": %q; start it without -W, or set MachineClock", line)
	}
	requester, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer requester.close()
	if err := c.readSeconds(requester); err != nil {
		return nil, err
	}
	probed := map[string]serverclock.Reading{}
	for range probes {
		name, r := "slidegate-clock-"+rand.Text(), serverclock.Reading{Sent: time.Now()}
		line, err := requester.call("get " + name + "\r\n")
		if err != nil {
			return nil, err
		}
		if r.Received = time.Now(); line != "END" {
			return nil, fmt.Errorf("unexpected response %q to get", line)
		}
		probed[name] = r
	}
	return watcher.find(probed)
}

// readSeconds reads the server's clock for expiry.
func (c *serverClock) readSeconds(requester *conn) error {
	line, err := requester.call("stats\r\n")
	found := false
	for ; err == nil && line != "END"; line, err = requester.line() {
		if text, is := strings.CutPrefix(line, "STAT time "); is {
			shown, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("invalid time %q in stats", text)
			}
			c.expiry.Store(&seconds{shown, time.Now()})
			found = true
		} else if !strings.HasPrefix(line, "STAT ") {
			return fmt.Errorf("unexpected response %q to stats", line)
		}
	}
	if err == nil && !found {
		err = errors.New("stats contain no time")
	}
	return err
}

// conn is a connection used by readClock.
type conn struct {
	net  net.Conn
	read *bufio.Reader
	stop func() bool
}

// connect returns a connection whose reads and writes fail when ctx ends.
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

// call sends a command and returns the first line of the response.
func (c *conn) call(command string) (string, error) {
	if _, err := c.net.Write([]byte(command)); err != nil {
		return "", err
	}
	return c.line()
}

func (c *conn) line() (string, error) {
	line, err := c.read.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// find reads the log until it has found all probes, and returns the readings.
func (c *conn) find(probed map[string]serverclock.Reading) (found []serverclock.Reading, err error) {
	for len(found) < len(probed) {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		at, name, ok := parseLogLine(line)
		if r, ours := probed[name]; ok && ours {
			r.Shown = at
			found = append(found, r)
		}
	}
	return found, nil
}

// parseLogLine parses a line of the log such as "ts=1794849424.77975 gid=2 type=item_get key=name status=not_found". The digits
// after the point are a number of microseconds without leading zeros: .77975 means .077975.
func parseLogLine(line string) (at time.Time, name string, ok bool) {
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
