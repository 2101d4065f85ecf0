package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/httplimit"
)

// wireServerEnv is the environment variable that makes this program one of the servers under test; its value is the kind.
const wireServerEnv = "TEST_BENCH_SERVER"

// wireServer is a server under test, a child process. It ends when its standard input does, and so never outlives this
// program.
type wireServer struct {
	url     string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// startWireServer runs this program as a server of the given kind, on one processor.
func startWireServer(kind string) (*wireServer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &wireServer{process: exec.Command(program)}
	s.process.Env = append(os.Environ(), wireServerEnv+"="+kind, "GOMAXPROCS=1")
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
	s.out = bufio.NewScanner(out)
	if s.url, err = s.read(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// read returns the next line that the server prints.
func (s *wireServer) read() (string, error) {
	if !s.out.Scan() {
		return "", fmt.Errorf("the server has ended: %w", cmp.Or(s.out.Err(), io.ErrUnexpectedEOF))
	}
	return s.out.Text(), nil
}

// cpu returns the CPU time that the server reports.
func (s *wireServer) cpu() (time.Duration, error) {
	if _, err := fmt.Fprintln(s.in); err != nil {
		return 0, err
	}
	line, err := s.read()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line, 10, 64)
	return time.Duration(n), err
}

// stop ends the server.
func (s *wireServer) stop() {
	_ = s.in.Close()
	_ = s.process.Wait() // the result does not matter: all figures have been read
}

// serveWire is the main function of a server. It prints its URL, and then its CPU time for every line that it reads. It returns the
// exit status.
func serveWire(kind string, in io.Reader, out io.Writer) int {
	if strings.HasPrefix(kind, natsKind) {
		return serveNATS(kind, in, out)
	}
	handler, err := wireHandler(kind)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 2
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 1
	}
	server := &http.Server{Handler: handler}
	if strings.HasPrefix(kind, "constant") { // they are compared with the service, which has timeouts and collects garbage less often
		server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 10*time.Second, 15*time.Second, 2*time.Minute
		defer runtime.KeepAlive(make([]byte, 32<<20))
	}
	go server.Serve(listener) //nolint:errcheck // it ends with the process
	fmt.Fprintf(out, "http://%s/\n", listener.Addr())
	for lines := bufio.NewScanner(in); lines.Scan(); {
		worked, _ := cpuTime()
		fmt.Fprintln(out, int64(worked))
	}
	return 0
}

// wireHandler returns the handler of a kind of server. The kinds write the same headers, with as many equal bytes as possible.
func wireHandler(kind string) (http.Handler, error) {
	headers := httplimit.HeadersNone
	name, withHeaders := strings.CutSuffix(kind, "-headers")
	if withHeaders {
		headers = httplimit.HeadersIETF
	}
	switch name {
	case "constant":
		return http.HandlerFunc(writeConstant), nil
	case "constant-reading":
		return http.HandlerFunc(readAndWriteConstant), nil
	case "plain":
		if withHeaders {
			return http.HandlerFunc(greetWithHeaders), nil
		}
		return http.HandlerFunc(greet), nil
	case "limits":
		o, err := openSlidegateMiddleware(spec{quota: ampleQuota, window: quotaWindow}, headers)
		if err != nil {
			return nil, err
		}
		return o.wrap(http.HandlerFunc(greet)), nil
	}
	return nil, fmt.Errorf("%s: unknown kind of server %q", wireServerEnv, kind)
}

// constantDecision has the size of the service's response for one key.
var constantDecision = []byte(`{"allowed":true,"policy":"default","limit":"8000000/1h","quota":8000000,"remaining":7654321,"granted":1,` +
	`"retry_after_us":0,"reset_after_us":7199000000,"at_us":1800000000000000,"by":"limits","flags":[],"shadow":false,"refused":false}` + "\n")

var constantType = []string{"application/json"}

func writeConstant(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = constantType
	_, _ = w.Write(constantDecision)
}

func readAndWriteConstant(w http.ResponseWriter, r *http.Request) {
	var room [1024]byte
	for {
		if _, err := r.Body.Read(room[:]); err != nil {
			break
		}
	}
	writeConstant(w, r)
}

var (
	plainPolicy = []string{`"api";q=8000000;w=3600`}
	plainLimit  = []string{`"api";r=7654321;t=7199`}
)

// greetWithHeaders writes the headers that the middleware would, with constant values.
func greetWithHeaders(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Ratelimit-Policy"], h["Ratelimit"] = plainPolicy, plainLimit
	greet(w, r)
}
