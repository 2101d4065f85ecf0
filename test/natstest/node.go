package natstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/kit"
)

// settings configures a server in a separate process.
type settings struct {
	Name   string
	Dir    string
	Port   int
	Route  int      // the port for the other servers; 0 for a single server
	Routes []string // addresses of all servers of the cluster
}

// settingsVariable is the environment variable that makes a process a server; its value is the settings.
const settingsVariable = "TEST_NATS_SERVER"

// A server in a separate process is the test's program, started again. It runs no tests.
func init() {
	if text := os.Getenv(settingsVariable); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, "natstest:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serve runs a server until the test's process ends or closes the pipe to it.
func serve(text string) error {
	var set settings
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return err
	}
	s, err := server.NewServer(set.options())
	if err != nil {
		return err
	}
	s.Start()
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func (s *settings) options() *server.Options {
	opts := &server.Options{
		ServerName: s.Name, Host: "127.0.0.1", Port: s.Port, JetStream: true, StoreDir: s.Dir, NoLog: true, NoSigs: true,
	}
	if s.Route == 0 {
		return opts
	}
	// Servers advertise an address that leads nowhere, so that they connect only by Routes.
	opts.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: s.Route, Advertise: "127.0.0.1:1", NoAdvertise: true}
	for _, address := range s.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: address})
	}
	return opts
}

// Node is a server in a separate process. It is not safe for concurrent use, except for URL. The zero value is not usable; call
// StartNode or StartCluster.
type Node struct {
	t        testing.TB
	settings settings
	process  *exec.Cmd
	in       io.Closer
	ended    chan struct{} // closed when the process has ended
}

// StartNode starts a single server in a separate process, which ends with the test.
func StartNode(t testing.TB) *Node {
	t.Helper()
	n := &Node{t: t, settings: settings{Name: "alone", Dir: t.TempDir()}}
	t.Cleanup(n.end)
	var err error
	for range 5 { // another process may take the port first
		if n.settings.Port, err = testkit.FreePort(); err != nil {
			break
		}
		if err = n.start(); err == nil {
			return n
		}
		n.end()
	}
	t.Fatalf("natstest: the server does not start: %v", err)
	return nil
}

// URL returns the address for clients.
func (n *Node) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.settings.Port) }

// Name returns the server's name.
func (n *Node) Name() string { return n.settings.Name }

// Kill ends the server immediately, as kill -9 does.
func (n *Node) Kill() {
	_ = n.process.Process.Kill()
	<-n.ended
}

// Restart starts a killed server again, with what it had written, and waits until it accepts connections.
func (n *Node) Restart() {
	n.t.Helper()
	if err := n.start(); err != nil {
		n.t.Fatalf("natstest: the server does not start again: %v", err)
	}
}

// Shutdown ends the server cleanly: it hands over the streams that it leads.
func (n *Node) Shutdown() {
	n.in.Close()
	<-n.ended
}

// Signal sends the server a signal, such as the one that stops it without ending it.
func (n *Node) Signal(signal os.Signal) {
	n.t.Helper()
	if err := n.process.Process.Signal(signal); err != nil {
		n.t.Fatal(err)
	}
}

func (n *Node) launch() error {
	text, err := json.Marshal(&n.settings)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), settingsVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	kit.KillWithParent(cmd)
	if n.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.process, n.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(ended)
	}()
	return nil
}

func (n *Node) start() error {
	if err := n.launch(); err != nil {
		return err
	}
	return n.awaitReady()
}

var errEnded = errors.New("the server ended")

// awaitReady waits until our process, and not another one on the same port, accepts connections.
func (n *Node) awaitReady() error {
	return kit.Retry(errEnded, func() error {
		select {
		case <-n.ended:
			return errEnded
		default:
		}
		conn, err := nats.Connect(n.URL())
		if err != nil {
			return err
		}
		defer conn.Close()
		if name := conn.ConnectedServerName(); name != n.settings.Name {
			return fmt.Errorf("the server %q answers on the port", name)
		}
		return nil
	})
}

func (n *Node) end() {
	if n.process != nil {
		n.Kill()
	}
}
