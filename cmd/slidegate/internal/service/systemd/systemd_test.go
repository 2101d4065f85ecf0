package systemd

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// childVariable makes the test run as a service that receives sockets from systemd.
const childVariable = "SLIDEGATE_TEST_SOCKETS"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child prints the sockets that it received.
func child() int {
	os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())) // as systemd does between fork and exec
	all, err := Listeners("http", "admin")
	for name, l := range all {
		os.Stdout.WriteString(name + "=" + l.Addr().String() + "\n")
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
	}
	if os.Getenv("LISTEN_FDS") != "" {
		os.Stdout.WriteString("the variables are still set\n")
	}
	return 0
}

func TestListeners(t *testing.T) {
	tcp := func() *os.File {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		file, err := l.(*net.TCPListener).File()
		testkit.NoError(t, err)
		t.Cleanup(func() { file.Close() })
		return file
	}
	plain, err := os.Open(os.DevNull)
	testkit.NoError(t, err)
	defer plain.Close()
	for _, test := range []struct {
		files []*os.File
		names string
		want  string // a pattern of the output
	}{
		{nil, "", `^$`},
		{[]*os.File{tcp()}, "slidegate.socket", `^http=127\.0\.0\.1:\d+\n$`},
		{[]*os.File{tcp()}, "", `^http=127\.0\.0\.1:\d+\n$`},
		{[]*os.File{tcp()}, "admin", `^admin=127\.0\.0\.1:\d+\n$`},
		{[]*os.File{tcp(), tcp()}, "admin:http", `^(http|admin)=.*\n(http|admin)=.*\n$`},
		{[]*os.File{tcp(), tcp()}, "http:web", `(?s)^http=.*socket 2 from systemd has the unknown name "web"; set FileDescriptorName= in its unit to one of http, admin\n$`},
		{[]*os.File{tcp(), tcp()}, "http:http", `(?s)^http=.*two sockets named "http"`},
		{[]*os.File{plain}, "http", `^socket 1 from systemd, "http": .*; use ListenStream= in its unit\n$`},
	} {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childVariable+"=1", "LISTEN_FDS="+strconv.Itoa(len(test.files)), "LISTEN_FDNAMES="+test.names)
		c.ExtraFiles = test.files
		got, err := c.Output()
		testkit.NoError(t, err)
		if !regexp.MustCompile(test.want).Match(got) {
			t.Errorf("%d sockets named %q: got %q, want %s", len(test.files), test.names, got, test.want)
		}
	}
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	if all, err := Listeners("http"); all != nil || err != nil {
		t.Errorf("sockets of another process: got %v, %v, want none", all, err)
	}
}

func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	testkit.NoError(t, Notify(Ready)) // without a socket
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testkit.NoError(t, err)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	testkit.NoError(t, Notify(Reloading(), Status("one\ntwo")))
	got := make([]byte, 1000)
	n, err := socket.Read(got)
	testkit.NoError(t, err)
	if !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=\d+\nSTATUS=one two$`).Match(got[:n]) {
		t.Errorf("got the message %q", got[:n])
	}
	t.Setenv("NOTIFY_SOCKET", path+"-missing")
	if err := Notify(Ready); err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET") {
		t.Errorf("a missing socket: got %v", err)
	}
}

func TestWatchdogEvery(t *testing.T) {
	for _, test := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"x", "", 0}, {"0", "", 0},
		{"2000000", "", time.Second}, {"2000000", "1", 0}, {"2000000", strconv.Itoa(os.Getpid()), time.Second},
	} {
		t.Setenv("WATCHDOG_USEC", test.usec)
		t.Setenv("WATCHDOG_PID", test.pid)
		if got := WatchdogEvery(); got != test.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: got %v, want %v", test.usec, test.pid, got, test.want)
		}
	}
}
