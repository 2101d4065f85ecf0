package service_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// crowdVariable makes this program a crowd of clients instead of a test. They run in a separate process, since one process may not
// be allowed to open enough files for both ends of their connections.
const crowdVariable = "SLIDEGATE_TEST_CROWD"

// crowdSize is the size of a crowd, and where it connects.
type crowdSize struct {
	HTTP, RESP          string // addresses of the listeners
	Idle, Slow, IdleRSP int    // numbers of clients
}

// startCrowd starts clients that hold connections, and returns once all of them do. The returned function ends them.
func startCrowd(t *testing.T, order crowdSize) (leave func()) {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crowdVariable+"="+string(text))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	leave = sync.OnceFunc(func() {
		in.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("the crowd: %v", err)
		}
	})
	t.Cleanup(leave)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "all are here\n" {
		t.Fatalf("the crowd: got %q, %v", line, err)
	}
	return leave
}

// runCrowd connects all clients, reports it, and holds the connections until standard input ends.
func runCrowd() (status int) {
	var order crowdSize
	if err := json.Unmarshal([]byte(os.Getenv(crowdVariable)), &order); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	work := make(chan func() error)
	var workers sync.WaitGroup
	failed := make(chan error, 1)
	for range 64 {
		workers.Go(func() {
			for connect := range work {
				if err := connect(); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for range order.Idle {
		work <- func() error {
			return holdConnection(order.HTTP, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "ok\n")
		}
	}
	for range order.IdleRSP {
		work <- func() error { return holdConnection(order.RESP, testkit.Commands("PING"), "+PONG\r\n") }
	}
	for i := range order.Slow {
		work <- func() error { return holdConnection(order.HTTP, halves[i%len(halves)], "") }
	}
	close(work)
	workers.Wait()
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, "one of the crowd:", err)
		return 1
	default:
	}
	ended := make(chan struct{})
	go dribble(ended)
	fmt.Println("all are here")
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(ended)
	return 0
}

// halves are incomplete requests.
var halves = []string{
	"POST /v1/allow HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", // followed by a byte of the header now and then
	"POST /v1/allow HTTP/1.1\r\nHos",
	"POST /v1/allow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"key",
}

var (
	heldMu sync.Mutex
	held   []net.Conn
	slow   []net.Conn // the connections in held that continue to send
)

// holdConnection connects, sends a request, waits for the end of the response, and keeps the connection open.
func holdConnection(address, request, last string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	heldMu.Lock()
	held = append(held, conn)
	if request == halves[0] {
		slow = append(slow, conn)
	}
	heldMu.Unlock()
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	var got strings.Builder
	for part := make([]byte, 512); !strings.HasSuffix(got.String(), last); {
		n, err := conn.Read(part)
		if err != nil {
			return err
		}
		got.Write(part[:n])
	}
	return nil
}

// dribble repeatedly sends a byte on every slow connection.
func dribble(ended chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(100 * time.Millisecond):
		}
		for _, conn := range slow {
			_, _ = conn.Write([]byte("x")) // it may have been closed
		}
	}
}
