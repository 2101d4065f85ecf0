package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"

	"github.com/slidegate/slidegate"
	sgconfig "github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/server/gate"
	"github.com/slidegate/slidegate/server/resp"
)

// respServerEnv makes this program a RESP server instead.
const respServerEnv = "SLIDEGATE_BENCH_RESP"

// respServer is our server, a child process. It ends when its standard input does, and so never outlives this program.
type respServer struct {
	address string
	process *exec.Cmd
	in      io.WriteCloser
}

func startRespServer() (*respServer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &respServer{process: exec.Command(program)}
	s.process.Env = append(os.Environ(), respServerEnv+"=1")
	s.process.Stderr = os.Stderr
	if s.in, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		s.stop()
		return nil, fmt.Errorf("the server has ended: %w", cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
	}
	s.address = lines.Text()
	return s, nil
}

// stop ends the server.
func (s *respServer) stop() {
	_ = s.in.Close()
	_ = s.process.Wait() // its figures have been read, and nothing else matters
}

// serveResp is the server, over policies in memory. It prints where it listens, and returns the exit status.
func serveResp(in io.Reader, out io.Writer) int {
	server, err := openResp()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 2
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 1
	}
	go server.Serve(listener) //nolint:errcheck // it ends with the process
	fmt.Fprintln(out, listener.Addr())
	_, _ = io.Copy(io.Discard, in)
	return 0
}

// openResp makes a server with a quota that no load reaches.
func openResp() (*resp.Server, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	file, err := sgconfig.Parse("bench", []byte(`policies: {default: {key: "{address}", limits: [8000000/1h]}}`))
	if err != nil {
		return nil, err
	}
	g, err := gate.New(file, gate.Stores{Open: store, Closed: store, Local: store}, gate.Options{})
	if err != nil {
		return nil, err
	}
	throttle, err := slidegate.NewWith(store, slidegate.Options{Namespace: "cl.throttle"})
	if err != nil {
		return nil, err
	}
	return resp.New(g, throttle, resp.Options{})
}
