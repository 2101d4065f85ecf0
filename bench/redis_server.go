package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// redisURLEnv names a server to use instead of one that this program starts.
const redisURLEnv = "REDIS_URL"

// errNoRedis means that Redis is missing, which is not a failure.
var errNoRedis = errors.New("redis-server is missing, and " + redisURLEnv + " is not set. Install the package redis-server")

// redisServer is the server under test, and one client of each kind for all rows, so that those with the same client
// have the same settings.
type redisServer struct {
	clients
	fast    rueidis.ClientOption
	slow    redis.Options
	admin   *redis.Client // for commands that are not timed
	process *redisProcess // nil if this program did not start the server
	ours    bool          // the database was empty, so this program wrote all keys in it
}

// clients holds the clients of the rows.
type clients struct {
	rueidis rueidis.Client
	pooled  *redis.Client        // go-redis as most programs use it: a connection for each command under way
	piped   *redis.AutoPipeliner // go-redis with the commands of all callers in one pipeline, as rueidis does it
}

// openRedis starts a server, or uses the one that REDIS_URL names, and connects to it.
func openRedis(ctx context.Context) (*redisServer, error) {
	url := os.Getenv(redisURLEnv)
	if url != "" {
		return connectRedis(ctx, url)
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	process, err := startRedis(program)
	if err != nil {
		return nil, err
	}
	s, err := connectRedis(ctx, process.url)
	if err != nil {
		process.stop()
		return nil, err
	}
	s.process = process
	return s, nil
}

func connectRedis(ctx context.Context, url string) (*redisServer, error) {
	fast, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redisURLEnv, err)
	}
	pooled, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redisURLEnv, err)
	}
	fast.DisableCache = true // no row reads anything twice
	pooled.MaxRetries = -1   // a decision that is sent twice may be charged twice, so Slidegate requires this
	admin := *pooled
	admin.PoolSize = 1
	s := &redisServer{fast: fast, slow: *pooled, admin: redis.NewClient(&admin)}
	if err = s.connect(); err == nil {
		err = s.checkEmpty(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// connect replaces the clients by new ones. Clients have state: once rueidis has had concurrent callers, it passes all requests
// between goroutines, even those of a single caller.
func (s *redisServer) connect() (err error) {
	s.clients.close()
	slow := s.slow
	s.pooled = redis.NewClient(&slow)
	if s.piped, err = s.pooled.AutoPipeline(); err != nil {
		return err
	}
	s.rueidis, err = rueidis.NewClient(s.fast)
	return err
}

func (c *clients) close() {
	if c.piped != nil {
		_ = c.piped.Close()
	}
	if c.rueidis != nil {
		c.rueidis.Close()
	}
	if c.pooled != nil {
		_ = c.pooled.Close()
	}
	*c = clients{}
}

// checkEmpty rejects a database with keys, since it is emptied before every round.
func (s *redisServer) checkEmpty(ctx context.Context) error {
	n, err := s.admin.DBSize(ctx).Result()
	if err == nil && n > 0 {
		err = fmt.Errorf("%s: the database has %d keys and would be emptied; name an empty one", redisURLEnv, n)
	}
	s.ours = err == nil
	return err
}

// empty removes all keys; scripts stay.
func (s *redisServer) empty(ctx context.Context) error {
	if !s.ours {
		panic("the database was not empty at the start")
	}
	return s.admin.FlushDB(ctx).Err()
}

// cpu returns the CPU time that the server reports.
func (s *redisServer) cpu(ctx context.Context) (time.Duration, error) {
	info, err := s.admin.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	return readRedisCPU(info)
}

func readRedisCPU(info string) (time.Duration, error) {
	var seconds float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		n, err := strconv.ParseFloat(infoField(info, name), 64)
		if err != nil {
			return 0, fmt.Errorf("the server does not report %s: %w", name, err)
		}
		seconds += n
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// commands returns how many commands the server has run, including those of scripts.
func (s *redisServer) commands(ctx context.Context) (int64, error) {
	info, err := s.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	return readRedisCommands(info)
}

// readRedisCommands adds up lines such as "cmdstat_get:calls=21,usec=3,...".
func readRedisCommands(info string) (total int64, err error) {
	for line := range strings.Lines(info) {
		if _, counts, found := strings.Cut(line, ":calls="); found {
			calls, _, _ := strings.Cut(counts, ",")
			n, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("the server does not report the number of commands: %w", err)
			}
			total += n
		}
	}
	return total, nil
}

// infoField returns the value of a name in the output of INFO, or "".
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// version returns the name and version that the server reports.
func (s *redisServer) version(ctx context.Context) (string, error) {
	info, err := s.admin.Info(ctx, "server").Result()
	return infoField(info, "redis_version"), err
}

// close removes all keys, and stops the server if this program started it.
func (s *redisServer) close() {
	if s.ours {
		_ = s.empty(context.Background()) // a server that does not answer keeps its keys
	}
	s.clients.close()
	_ = s.admin.Close()
	if s.process != nil {
		s.process.stop()
	}
}

// redisProcess is a server that this program started: on loopback, in its own folder, and without persistence.
type redisProcess struct {
	url    string
	folder string
	cmd    *exec.Cmd
}

// startRedis tries several ports, since another process may take a port before the server does.
func startRedis(program string) (*redisProcess, error) {
	var err error
	for range 3 {
		var p *redisProcess
		if p, err = startRedisOnce(program); err == nil {
			return p, nil
		}
	}
	return nil, err
}

func startRedisOnce(program string) (*redisProcess, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, err
	}
	p := &redisProcess{url: "redis://127.0.0.1:" + port, folder: folder}
	p.cmd = exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--dir", folder, "--save", "", "--appendonly", "no", "--daemonize", "no")
	p.cmd.SysProcAttr = endsWithParent()
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	if err := waitReady(out); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// freePort returns an unused port of loopback.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// waitReady reads what the server prints until it accepts connections. Later output is read too, so that the server does not block.
func waitReady(out io.Reader) error {
	var printed []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "eady to accept connections") {
			go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the server
			return nil
		}
		printed = append(printed, lines.Text())
	}
	return fmt.Errorf("redis-server has ended: %s", strings.Join(printed, "\n"))
}

// stop stops the server and removes its folder. The server has nothing to save, so it is soon killed.
func (p *redisProcess) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait() // the result does not matter: all figures have been read
	late.Stop()
	_ = os.RemoveAll(p.folder)
}
