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
	// envoyPeerEnv names the program of envoyproxy/ratelimit, where it is there already.
	envoyPeerEnv = "ENVOY_RATELIMIT"
	// envoyPeer is the newest version of envoyproxy/ratelimit that a checksum was published of, built with the dependencies
	// that it names.
	envoyPeer        = "github.com/envoyproxy/ratelimit/src/service_cmd"
	envoyPeerVersion = "v1.4.1-0.20230427142404-e2a87f41d3a7"
)

// envoyServer is a rate limit service in a process of its own.
type envoyServer struct {
	name    string
	process *exec.Cmd
	end     func() // of the process
	addr    string
	conn    *grpc.ClientConn
	client  rls.RateLimitServiceClient // asks one thing after the other
	load    *envoyClient               // asks as much as it can; nil until it does
	keys    int                        // how many clients it asks about; 0 means envoyKeys
}

// ours reports whether it is Slidegate's.
func (s *envoyServer) ours() bool { return s.name == envoyRedis || s.name == envoyMemory }

// cpu returns how long the processors have worked for the server; its Redis is not in it.
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

// peerProgram returns the program of the original, which it builds in folder if need be.
func (r *run) peerProgram(folder string) (string, error) {
	if program := os.Getenv(envoyPeerEnv); program != "" {
		return program, nil
	}
	if r.quick {
		return "", fmt.Errorf("-quick does not build it, and %s names no program of it", envoyPeerEnv)
	}
	r.say("envoy: building the original")
	build := exec.Command("go", "install", envoyPeer+"@"+envoyPeerVersion)
	build.Dir = folder // outside of this module, whose versions it is not to have
	build.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it could not be built, and %s names no program of it: %s", envoyPeerEnv, out)
	}
	return filepath.Join(folder, "service_cmd"), nil
}

// startPeer runs the original with the rules in folder, as its documentation says, with more settings if there are any.
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

// startOurs runs the service with the same rules.
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
