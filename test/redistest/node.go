package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/kit"
)

const patience = 20 * time.Second // how long anything may take

// Node is one server. It is not safe for concurrent use, except for Addr. The zero value is not usable; call Server.
type Node struct {
	t        testing.TB
	program  string
	args     []string // after the configuration file
	env      []string // in addition to that of the test
	dir      string
	config   []string
	port     int
	external *rueidis.ClientOption // of a server that this package did not start

	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// Server starts a server that keeps nothing on disk. Each string of config is a line of a configuration file, such as
// "appendonly yes". With REDIS_URL set it starts none and uses that server, unless config is given.
func Server(t testing.TB, config ...string) *Node {
	t.Helper()
	if url := os.Getenv("REDIS_URL"); url != "" && len(config) == 0 {
		opts, err := rueidis.ParseURL(url)
		if err != nil {
			t.Fatalf("redistest: REDIS_URL: %v", err)
		}
		return &Node{t: t, external: &opts}
	}
	return newNode(t, false, nil, append(slices.Clone(inMemory), config...))
}

// ServerWithEnv is Server with more variables in the server's environment, each as "NAME=value". It always starts one.
func ServerWithEnv(t testing.TB, env []string, config ...string) *Node {
	t.Helper()
	return run(&Node{t: t, env: env, config: append(slices.Clone(inMemory), config...)}, false)
}

// inMemory is the configuration of a server that keeps nothing on disk. Later lines take precedence.
var inMemory = []string{`save ""`, "appendonly no"}

// newNode starts a server on its own port.
func newNode(t testing.TB, bus bool, args, config []string) *Node {
	t.Helper()
	return run(&Node{t: t, args: args, config: config}, bus)
}

// run finds a program, a directory and a port for a server, and starts it. It tries again on another port if the port
// was taken in the meantime.
func run(n *Node, bus bool) *Node {
	n.t.Helper()
	n.program, n.dir = program(n.t), n.t.TempDir()
	n.t.Cleanup(n.end)
	var err error
	var above []int
	if bus {
		above = []int{10_000} // where a cluster's nodes meet
	}
	for range 5 {
		n.port = kit.Must(testkit.FreePort(above...))(n.t)
		n.configure()
		if err = n.start(); err == nil {
			return n
		}
		n.end()
	}
	n.t.Fatalf("redistest: the server does not start: %v\n%s", err, n.log())
	return nil
}

// configure writes the configuration. It is written once: sentinels keep their state in it.
func (n *Node) configure() {
	n.t.Helper()
	lines := append([]string{
		fmt.Sprintf("port %d", n.port), "bind 127.0.0.1", "dir " + strconv.Quote(n.dir), "daemonize no", `logfile "redis.log"`,
	}, n.config...)
	if err := os.WriteFile(n.configFile(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *Node) configFile() string { return filepath.Join(n.dir, "redis.conf") }

// start starts the process and waits until it is ready.
func (n *Node) start() error {
	cmd := exec.Command(n.program, append([]string{n.configFile()}, n.args...)...)
	cmd.Env = append(os.Environ(), n.env...)
	kit.KillWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.process, n.ended = cmd, ended
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed in the end; the log says if it ended before
		close(ended)
	}()
	return n.untilReady()
}

// untilReady waits until our process, and not another one on the same port, has loaded its data and answers.
func (n *Node) untilReady() error {
	own := fmt.Sprintf("process_id:%d\r\n", n.process.Process.Pid)
	return kit.Retry(errEnded, func() error {
		select {
		case <-n.ended:
			return errEnded
		default:
		}
		if _, err := n.command("PING"); err != nil {
			return err
		}
		info, err := n.command("INFO", "server")
		if err == nil && !strings.Contains(info, own) {
			err = errors.New("another server answers on the port")
		}
		return err
	})
}

var errEnded = errors.New("the server ended")

// command sends one command over its own connection.
func (n *Node) command(args ...string) (string, error) {
	opts := n.Options()
	opts.ForceSingleClient, opts.DisableRetry, opts.AlwaysRESP2 = true, true, true // RESP3 marks texts as such
	opts.Dialer.Timeout = time.Second
	client, err := rueidis.NewClient(opts)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(args...).Build()).ToString()
}

// mustCommand is command for commands that must succeed.
func (n *Node) mustCommand(args ...string) string {
	n.t.Helper()
	reply, err := n.command(args...)
	if err != nil {
		n.t.Fatalf("redistest: %v: %v", args, err)
	}
	return reply
}

// Addr returns the address of the server.
func (n *Node) Addr() string {
	if n.external != nil {
		return n.external.InitAddress[0]
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port))
}

// Options returns the options of a client of the server.
func (n *Node) Options() rueidis.ClientOption {
	opts := rueidis.ClientOption{InitAddress: []string{n.Addr()}}
	if n.external != nil {
		opts = *n.external
	}
	opts.DisableCache = true
	return opts
}

// Client returns a client of the server, which is closed with the test.
func (n *Node) Client(t testing.TB) rueidis.Client {
	t.Helper()
	return Client(t, n.Options())
}

// Client returns a client that is closed with the test.
func Client(t testing.TB, opts rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(opts)
	if err != nil {
		t.Fatalf("redistest: no client: %v", err)
	}
	t.Cleanup(client.Close)
	return client
}

// Kill ends the server immediately, as a power cut does. The server has ended when Kill returns.
func (n *Node) Kill() {
	n.t.Helper()
	n.ownOnly()
	n.end()
}

// Restart starts the server again, at the same address and with what it had kept on disk. It is ready when Restart
// returns.
func (n *Node) Restart() {
	n.t.Helper()
	n.ownOnly()
	n.end()
	if err := n.start(); err != nil {
		n.t.Fatalf("redistest: the server does not start again: %v\n%s", err, n.log())
	}
}

// ownOnly skips a test that would end a server that this package did not start.
func (n *Node) ownOnly() {
	n.t.Helper()
	if n.external != nil {
		n.t.Skip("SKIPPED: the server at REDIS_URL is not ours to end")
	}
}

// end kills the process that we started, if it still runs.
func (n *Node) end() {
	if n.process == nil {
		return
	}
	select {
	case <-n.ended:
	default:
		n.process.Process.Kill() //nolint:errcheck // it may have ended just now
		<-n.ended
	}
}

// log returns the end of the server's log.
func (n *Node) log() string {
	text, err := os.ReadFile(filepath.Join(n.dir, "redis.log"))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(text[max(0, len(text)-2_000):])
}
