package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// envoyPeerEnv names an existing program of envoyproxy/ratelimit.
	envoyPeerEnv = "ENVOY_RATELIMIT"
	// envoyPeer is the newest version of envoyproxy/ratelimit with a published checksum, built with the dependencies that it
	// requires.
	envoyPeer        = "github.com/envoyproxy/ratelimit/src/service_cmd"
	envoyPeerVersion = "v1.4.1-0.20230427142404-e2a87f41d3a7"
)

// envoyServer is a rate limit service in a separate process.
type envoyServer struct {
	name    string
	process *exec.Cmd
	end     func() // of the process
	addr    string
	conn    *grpc.ClientConn
	client  rls.RateLimitServiceClient // sends one request at a time
	load    *envoyClient               // sends as many requests as it can; nil until it is needed
	keys    int                        // number of clients in the requests; 0 means envoyKeys
}

// ours reports whether the service is Slidegate.
func (s *envoyServer) ours() bool { return s.name == envoyRedis || s.name == envoyMemory }

// cpu returns the CPU time of the server, without its Redis.
func (s *envoyServer) cpu() time.Duration { return treeCPU(strconv.Itoa(s.process.Process.Pid)) }

// stop ends the server.
func (s *envoyServer) stop() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.load != nil {
		_ = s.load.conn.Close()
	}
	s.end()
}

// connect waits until the server is healthy.
func (s *envoyServer) connect(addr string) error {
	s.addr = addr
	var err error
	if s.conn, err = grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return err
	}
	s.client = rls.NewRateLimitServiceClient(s.conn)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		answer, err := healthpb.NewHealthClient(s.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil && answer.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w", s.name, cmp.Or(err, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// peerProgram returns the program of the original, and builds it in folder if necessary.
func (r *run) peerProgram(folder string) (string, error) {
	if program := os.Getenv(envoyPeerEnv); program != "" {
		return program, nil
	}
	if r.quick {
		return "", fmt.Errorf("-quick does not build it, and %s is not set", envoyPeerEnv)
	}
	r.logf("envoy: building the original")
	build := exec.Command("go", "install", envoyPeer+"@"+envoyPeerVersion)
	build.Dir = folder // outside of this module, so that its versions do not apply
	build.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it could not be built, and %s is not set: %s", envoyPeerEnv, out)
	}
	return filepath.Join(folder, "service_cmd"), nil
}

// startPeer starts the original with the rules in folder and additional settings, as its documentation describes.
func startPeer(name, program, folder, redisURL string, settings ...string) (*envoyServer, error) {
	var ports [3]string
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	s := &envoyServer{name: name, process: exec.Command(program)}
	s.end = func() { endProcess(s.process) }
	s.process.Env = append(os.Environ(), "USE_STATSD=false", "LOG_LEVEL=error",
		"HOST=127.0.0.1", "PORT="+ports[0], "GRPC_HOST=127.0.0.1", "GRPC_PORT="+ports[1], "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+ports[2],
		"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=single", "REDIS_URL="+strings.TrimPrefix(redisURL, "redis://"),
		"RUNTIME_ROOT="+folder, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")
	s.process.Env = append(s.process.Env, settings...)
	s.process.SysProcAttr = endsWithParent()
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	if err := s.connect("127.0.0.1:" + ports[1]); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// startOurs starts our service with the same rules.
func (r *run) startOurs(name, store, rules string) (*envoyServer, error) {
	p, err := r.startProgram(nil, "--store="+store, "--envoy="+rules, "--envoy-headers=none") // the original adds none either
	if err != nil {
		return nil, err
	}
	s := &envoyServer{name: name, process: p.process, end: p.stop}
	if err := s.connect(p.grpc); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}
