package listen

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The error about an invalid address says what to write instead.
func TestCheck(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8080": "", ":8080": "", "localhost:0": "", "[::1]:80": "", "unix:/run/x.sock": "", "unix:x.sock": "", "unix:///run/x": "",
		"18080":          "write 127.0.0.1:18080 for this machine only, or :18080",
		"localhost":      "write localhost:8080",
		"127.0.0.1:":     "write 127.0.0.1:8080",
		"::1":            "in brackets",
		"::1:8080":       "in brackets",
		"http://x:80":    "is a URL",
		"/run/x.sock":    "write unix:/run/x.sock",
		"./x.sock":       "write unix:./x.sock",
		"unix:":          "has no path",
		"127.0.0.1 8080": "missing port",
	} {
		if err := Check(address); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%q) = %v, want %q in it", address, err, want)
		}
	}
}

// A leftover socket is replaced; a socket in use, or another file, is not.
func TestUnixSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	first, err := Options{}.Open("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != socketMode {
		t.Errorf("got socket mode %v, %v, want %o", info.Mode(), err, socketMode)
	}
	if _, err := (Options{}).Open("unix:" + path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second listener on a socket in use: got %v, want EADDRINUSE", err)
	}
	first.Listener.(*net.UnixListener).SetUnlinkOnClose(false) // like a killed process
	first.Close()
	second, err := Options{}.Open("unix:" + path)
	if err != nil {
		t.Fatalf("a leftover socket: got %v", err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Options{}).Open("unix:" + path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a listener in place of a file: got %v, want EADDRINUSE", err)
	}
}
