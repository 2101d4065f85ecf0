package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
)

// errNoMemcached means that memcached is missing, which is not a failure.
var errNoMemcached = errors.New("memcached is missing. Install the package memcached")

// memcachedServer is memcached, started for this run.
type memcachedServer struct {
	address string
	cmd     *exec.Cmd
	client  *memcache.Client
}

// openMemcached starts a server on a free port.
func openMemcached() (*memcachedServer, error) {
	program, err := exec.LookPath("memcached")
	if err != nil {
		return nil, errNoMemcached
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &memcachedServer{address: "127.0.0.1:" + port}
	args := []string{"-U", "0", "-l", "127.0.0.1", "-p", port, "-M", "-m", "256"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root") // if it changed its user, it would outlive this process
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.SysProcAttr = endsWithParent()
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.client = memcache.New(s.address)
	s.client.MaxIdleConns = maxCallers // one per caller, or most of the time would be spent on new connections
	s.client.Timeout = kvTimeout
	for begun := time.Now(); s.client.Ping() != nil; {
		if time.Since(begun) > 10*time.Second {
			s.close()
			return nil, errors.New("memcached is not ready after 10 s")
		}
	}
	return s, nil
}

// cpu returns the CPU time that the server reports.
func (s *memcachedServer) cpu(context.Context) (time.Duration, error) {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "stats\r\n"); err != nil {
		return 0, err
	}
	var seconds float64
	lines := bufio.NewScanner(conn)
	for lines.Scan() && lines.Text() != "END" {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && strings.HasPrefix(fields[1], "rusage_") {
			n, err := strconv.ParseFloat(fields[2], 64)
			if err != nil {
				return 0, err
			}
			seconds += n
		}
	}
	return time.Duration(seconds * float64(time.Second)), lines.Err()
}

func (s *memcachedServer) close() {
	_ = s.client.Close()
	_ = s.cmd.Process.Kill() // it has nothing to save
	_ = s.cmd.Wait()
}

// engine empties the server and opens it.
func (s *memcachedServer) engine(ctx context.Context) (kvstore.Engine, func(), error) {
	if err := s.client.FlushAll(); err != nil {
		return nil, nil, err
	}
	e, err := memcached.New(ctx, s.client, memcached.Options{ClockServer: s.address})
	if err != nil {
		return nil, nil, err
	}
	return e, e.Close, nil
}

// swapLoop returns the limiter that programs usually write over the client.
func (s *memcachedServer) swapLoop(context.Context) (*swapLoop, func(), error) {
	item := func(key string, value []byte, revision uint64) *memcache.Item {
		return &memcache.Item{Key: key, Value: value, CasID: revision, Expiration: 3600}
	}
	return &swapLoop{
		get: func(_ context.Context, key string) ([]byte, uint64, error) {
			item, err := s.client.Get(key)
			if errors.Is(err, memcache.ErrCacheMiss) {
				return nil, 0, nil
			}
			if err != nil {
				return nil, 0, err
			}
			return item.Value, item.CasID, nil
		},
		swap: func(_ context.Context, key string, value []byte, revision uint64) (bool, error) {
			write := s.client.CompareAndSwap
			if revision == 0 {
				write = s.client.Add
			}
			err := write(item(key, value, revision))
			if errors.Is(err, memcache.ErrCASConflict) || errors.Is(err, memcache.ErrNotStored) || errors.Is(err, memcache.ErrCacheMiss) {
				return false, nil
			}
			return err == nil, err
		},
	}, func() {}, s.client.FlushAll()
}
