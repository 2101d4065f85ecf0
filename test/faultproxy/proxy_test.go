package faultproxy

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"
)

// echo starts a server that sends every line back.
func echo(t *testing.T) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// roundTrip sends a line over a new connection and waits for it to come back.
func roundTrip(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, "line"); err != nil {
		return err
	}
	text, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && text != "line\n" {
		err = fmt.Errorf("got %q back", text)
	}
	return err
}

func TestWire(t *testing.T) {
	t.Parallel()
	wire := New(t, echo(t))
	addr := wire.Addr()
	if err := roundTrip(addr); err != nil {
		t.Fatal(err)
	}
	wire.Slow(60*time.Millisecond, 0)
	before := time.Now()
	if err := roundTrip(addr); err != nil || time.Since(before) < 60*time.Millisecond {
		t.Errorf("slowed by 60ms: took %v: %v", time.Since(before), err)
	}
	wire.Heal()
	for name, hurt := range map[string]func(){
		"cut":   wire.Cut,
		"mute":  func() { wire.Mute(5 * time.Millisecond) },
		"reset": func() { wire.Reset(time.Millisecond) },
	} {
		hurt()
		if err := roundTrip(addr); err == nil {
			t.Errorf("%s: got a reply", name)
		}
		if name == "cut" {
			wire.Mend()
		}
		wire.Heal()
		if err := roundTrip(addr); err != nil || wire.Addr() != addr {
			t.Errorf("%s: not healed: %v, at %s", name, err, wire.Addr())
		}
	}
}
