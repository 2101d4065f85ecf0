// Package attack_test attacks the service and the proxy as strangers would, through real proxies where that matters.
package attack_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")) // sleeps for a second after a client is closed
}

const (
	token    = "0123456789abcdef"
	patience = 30 * time.Second
)

// freePort returns a port that was free when it was called.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(testkit.FreeAddress(t))
	return port
}

// runNginx runs nginx with servers that listen on the given ports.
func runNginx(t *testing.T, servers string, ports ...string) {
	t.Helper()
	run(t, testkit.Nginx(t, servers), ports...)
}

// runCaddy runs Caddy with sites that listen on the given ports.
func runCaddy(t *testing.T, sites string, ports ...string) {
	t.Helper()
	run(t, testkit.Caddy(t, sites), ports...)
}

// run starts a program that is stopped when the test ends, and returns once it listens on the ports.
func run(t *testing.T, cmd *exec.Cmd, ports ...string) {
	t.Helper()
	p := testkit.Run(t, cmd)
	for _, port := range ports {
		p.Await(t, "it listens on "+port, func() bool { return testkit.Listens("127.0.0.1:" + port) })
	}
}

// reply is a response with its whole body.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request to a port from an address of this machine; lines are headers, which may include Host.
func send(t *testing.T, from, port, method, path, body string, lines ...string) reply {
	t.Helper()
	text := method + " " + path + " HTTP/1.1\r\nConnection: close\r\n"
	if !strings.Contains(strings.Join(lines, "\n"), "Host: ") {
		text += "Host: 127.0.0.1:" + port + "\r\n"
	}
	for _, line := range lines {
		text += line + "\r\n"
	}
	return sendRaw(t, from, port, text+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
}

// sendRaw sends bytes as they are, and reads the first response.
func sendRaw(t *testing.T, from, port, text string) reply {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	conn, err := dialer.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	got, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no response to %.80q: %v", text, err)
	}
	defer got.Body.Close()
	read, _ := io.ReadAll(got.Body) // the connection may be cut after the header
	return reply{got.StatusCode, got.Header, string(read)}
}

// portOf returns the port of an address.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
