package windows

import (
	"fmt"
	"testing"
	"time"
)

func minutes(n int) Window { return Window{Length: time.Duration(n) * time.Minute} }

// A connection has its share, whatever others use; a window in use is open to all.
func TestShareOfConnections(t *testing.T) {
	r := New(3, nil)
	for i := range 5 {
		if got, want := r.Admit("10.0.0.1:1", minutes(i)), i < 3; got != want {
			t.Errorf("window %d of the first connection: got %t, want %t", i, got, want)
		}
	}
	if !r.Admit("10.0.0.1:2", minutes(9)) || !r.Admit("10.0.0.1:1", minutes(9)) || r.Admit("10.0.0.1:1", minutes(8)) {
		t.Error("another connection has a share of its own, and the first may use that window, but no other")
	}
	if !r.Admit("10.0.0.1:1", Window{"", 0}) || r.Admit("10.0.0.1:1", Window{"other", 0}) {
		t.Error("the same length in another group is another window")
	}
}

// A window without keys that count makes room for another, and no other does.
func TestForgetsWindowsWithoutKeys(t *testing.T) {
	now := time.Unix(0, 0)
	r := New(2, func() time.Time { return now })
	if !r.Admit("a", minutes(1)) || !r.Admit("a", minutes(2)) {
		t.Fatal("want both admitted")
	}
	r.Keep(minutes(2), time.Hour)
	r.Keep(minutes(2), 2*time.Minute) // less than before
	if now = now.Add(grace - 1); r.Admit("a", minutes(3)) {
		t.Error("got a third window, want none before one is forgotten")
	}
	if now = now.Add(1); !r.Admit("a", minutes(3)) || r.Admit("a", minutes(4)) {
		t.Error("want one window after a minute: that of an hour is still in use")
	}
	r.Keep(minutes(3), 3*time.Hour)
	if now = time.Unix(3600, 0); !r.Admit("a", minutes(5)) || r.Admit("a", minutes(6)) {
		t.Error("want one window after an hour")
	}
	if now = time.Unix(86400, 0); !r.Admit("b", minutes(7)) {
		t.Error("want the window of another connection")
	}
	if r.forget(now); len(r.known) != 1 || len(r.conns) != 1 || len(r.hosts) != 1 {
		t.Errorf("got %d windows of %d connections, want 1", len(r.known), len(r.conns))
	}
}

// One host never takes the place of all others, however often it connects.
func TestShareOfHosts(t *testing.T) {
	r := New(64, nil)
	admitted := 0
	for i := range 2 * Most {
		if r.Admit(fmt.Sprintf("10.0.0.1:%d", i), minutes(i)) {
			admitted++
		}
	}
	if admitted != Most/2 {
		t.Errorf("one host: got %d windows, want %d", admitted, Most/2)
	}
	for host := 2; host < 8; host++ {
		if !r.Admit(fmt.Sprintf("[2001:db8::%d]:1", host), minutes(-host)) {
			t.Errorf("host %d: got no window", host)
		}
	}
}

func TestNilRegistryAdmits(t *testing.T) {
	var r *Registry
	r.Keep(minutes(1), time.Hour)
	if !r.Admit("a", minutes(1)) {
		t.Error("got no window, want all")
	}
}
