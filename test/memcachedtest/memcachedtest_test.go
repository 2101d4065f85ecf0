package memcachedtest

import (
	"errors"
	"net"
	"runtime"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/workers"
)

func TestRestartForgets(t *testing.T) {
	t.Parallel()
	s := Start(t)
	client := s.Client(t)
	if err := client.Set(&memcache.Item{Key: "key", Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if n := s.Count("curr_items"); n != 1 {
		t.Errorf("the server has %d items, want 1", n)
	}
	addr := s.Addr()
	s.Kill()
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the server still answers after Kill")
	}
	s.Restart()
	if _, err := s.Client(t).Get("key"); !errors.Is(err, memcache.ErrCacheMiss) || s.Addr() != addr {
		t.Errorf("after Restart: got the address %s and error %v, want %s and a missing key", s.Addr(), err, addr)
	}
}

func TestServersAreSeparate(t *testing.T) {
	t.Parallel()
	a, b := Start(t), Start(t)
	if err := a.Client(t).Set(&memcache.Item{Key: "key", Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client(t).Get("key"); !errors.Is(err, memcache.ErrCacheMiss) {
		t.Errorf("the other server knows the key: %v", err)
	}
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	other, s := Start(t), Start(t)
	s.end()
	s.port = other.port
	if err := s.start(); err == nil {
		t.Error("it takes another server for its own")
	}
}

func TestServerEndsWithTheTest(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("inner", func(t *testing.T) { addr = Start(t).Addr() })
	if addr == "" {
		t.Skip("SKIPPED: there was no server")
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the server outlived its test")
	}
}

// A server also ends if the test's process ends without stopping it.
func TestServerEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux ends a program with the process that started it")
	}
	w := workers.Start(t, 1, "server")[0]
	w.Send(t, "start")
	addr := workers.ReceiveAll[string](t, []*workers.Worker{w})[0]
	w.Kill()
	kit.Eventually(t, "the server to be gone", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// TestWorker is the main function of the other process.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(string) (func([]byte) (any, error), error) {
		return func([]byte) (any, error) { return Start(t).Addr(), nil }, nil
	})
}
