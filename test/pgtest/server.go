package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/test/kit"
)

// Server is a database on a server. It is not safe for concurrent use, except for URL, Addr and Exec. The zero value is
// not usable; call Start or Shared.
type Server struct {
	t    testing.TB
	url  *url.URL
	node *node // nil if the server does not belong to the test
}

// Start starts a server for one test. Each setting is a line of postgresql.conf, such as "wal_level = logical"; fsync
// is on by default. With DATABASE_URL set it starts none and uses a new database there, unless settings are given.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	if outside := os.Getenv("DATABASE_URL"); outside != "" && len(settings) == 0 {
		return newDatabase(t, outside)
	}
	return own(t, settings, nil, copyTemplate)
}

// StartWithEnv is Start with more variables in the server's environment, each as "NAME=value". It always starts one.
func StartWithEnv(t testing.TB, env []string, settings ...string) *Server {
	t.Helper()
	return own(t, settings, env, copyTemplate)
}

// own starts a server for one test, which ends with it.
func own(t testing.TB, settings, env []string, fill func(bin, folder, data string) error) *Server {
	t.Helper()
	n, err := newNode(settings, env, fill)
	if err != nil {
		noServer(t, err)
	}
	t.Cleanup(n.remove)
	return &Server{t: t, url: n.url("postgres"), node: n}
}

// noServer skips or fails a test because of an error in starting a server.
func noServer(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNoServer) {
		kit.SkipWithoutProgram(t, "postgres")
	}
	t.Fatal(err.Error())
}

// shared is the server for all tests of this process. No test kills it, so it need not write to the disk before it
// answers.
var shared = sync.OnceValues(func() (*node, error) {
	return newNode([]string{"fsync = off", "full_page_writes = off", "max_connections = 500"}, nil, copyTemplate)
})

// Shared returns a new database on a server that all tests of the process share. It is quick, and suits every test
// that neither ends the server nor changes its settings. If DATABASE_URL is set, the database is on that server.
func Shared(t testing.TB) *Server {
	t.Helper()
	if outside := os.Getenv("DATABASE_URL"); outside != "" {
		return newDatabase(t, outside)
	}
	n, err := shared()
	if err != nil {
		noServer(t, err)
	}
	return newDatabase(t, n.url("postgres").String())
}

// newDatabase creates a database, which is dropped after the test.
func newDatabase(t testing.TB, at string) *Server {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "postgres") {
		t.Fatal("pgtest: DATABASE_URL: it must be like postgres://user:password@host:5432/database")
	}
	admin := &Server{t: t, url: u}
	name := "slidegate_" + strings.ToLower(rand.Text()[:12])
	admin.Exec("CREATE DATABASE " + name)
	t.Cleanup(func() {
		if err := admin.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: the test's database was not dropped: %v", err)
		}
	})
	inside := *u
	inside.Path = "/" + name
	return &Server{t: t, url: &inside}
}

// URL returns the address of the database for clients, with more parameters such as "pool_max_conns=4" if given.
func (s *Server) URL(params ...string) string { return withParams(s.url, params) }

// URLAt is URL for clients that reach the server by another address, such as that of a faultproxy.Wire.
func (s *Server) URLAt(addr string, params ...string) string {
	u := *s.url
	u.Host = addr
	return withParams(&u, params)
}

func withParams(at *url.URL, params []string) string {
	u := *at
	query := u.Query()
	for _, param := range params {
		name, value, _ := strings.Cut(param, "=")
		query.Set(name, value)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // pgx takes a plus for a plus
	return u.String()
}

// Addr returns the address of the server.
func (s *Server) Addr() string {
	if s.url.Port() == "" {
		return net.JoinHostPort(s.url.Hostname(), "5432")
	}
	return s.url.Host
}

// Pool returns a pool of connections to the database, which is closed with the test. The parameters are those of URL.
func (s *Server) Pool(t testing.TB, params ...string) *pgxpool.Pool {
	t.Helper()
	return Pool(t, s.URL(params...))
}

// Exec runs statements over its own connection. They must succeed.
func (s *Server) Exec(statements ...string) {
	s.t.Helper()
	for _, statement := range statements {
		if err := s.exec(statement); err != nil {
			s.t.Fatalf("pgtest: %s: %v", statement, err)
		}
	}
}

func (s *Server) exec(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Kill ends the server and all its processes immediately, as a power cut does. They have ended when Kill returns.
func (s *Server) Kill() {
	s.t.Helper()
	s.ownOnly()
	s.node.process.kill()
}

// Signal sends a signal to the server and all its processes, such as the one that stops them without ending them.
func (s *Server) Signal(signal syscall.Signal) {
	s.t.Helper()
	s.ownOnly()
	pid := s.node.process.cmd.Process.Pid
	for _, each := range append([]int{pid}, children(pid)...) { // the server first, so that it starts no more of them
		if err := syscall.Kill(each, signal); err != nil && each == pid { // the others may have ended just now
			s.t.Fatalf("pgtest: %v", err)
		}
	}
}

// Stop shuts the server down cleanly. It has ended when Stop returns.
func (s *Server) Stop() {
	s.t.Helper()
	s.ownOnly()
	if err := s.node.stop(); err != nil {
		s.t.Fatalf("pgtest: the server does not stop: %v\n%s", err, logOf(s.node.folder))
	}
}

// Restart starts the server again at the same address, after Kill or Stop; a running server is stopped first. It has
// recovered and answers when Restart returns.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.node.start(); err != nil {
		s.t.Fatalf("pgtest: the server does not start again: %v\n%s", err, logOf(s.node.folder))
	}
}

// ownOnly skips a test that would end the server at DATABASE_URL, and fails one that would end the shared one.
func (s *Server) ownOnly() {
	s.t.Helper()
	switch {
	case s.node != nil:
	case os.Getenv("DATABASE_URL") != "":
		s.t.Skip("SKIPPED: the server at DATABASE_URL is not ours to end")
	default:
		s.t.Fatal("pgtest: the shared server must not be ended by a test; use Start")
	}
}

// Role creates a role that may log in and has the grants, such as "SELECT ON TABLE t", and no more than every role has.
// It returns the address of the database for that role.
func (s *Server) Role(t testing.TB, name string, grants ...string) string {
	t.Helper()
	role := fmt.Sprintf("%s_%s", name, strings.ToLower(rand.Text()[:12])) // roles belong to the server, not the database
	u := *s.url
	u.User = url.UserPassword(role, "secret")
	s.Exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret'", role))
	t.Cleanup(func() {
		s.exec("DROP OWNED BY " + role) //nolint:errcheck // the server may be gone, and the role with it
		s.exec("DROP ROLE " + role)     //nolint:errcheck // as above
	})
	for _, grant := range grants {
		s.Exec(fmt.Sprintf("GRANT %s TO %s", grant, role))
	}
	return u.String()
}
