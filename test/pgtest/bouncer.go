package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/kit"
)

// Bouncer starts PgBouncer in transaction mode in front of a server, with few connections to it, so that transactions
// of one client use several sessions of the server. It returns the address of the database through it.
func Bouncer(t testing.TB, s *Server) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if _, err = os.Stat("/usr/sbin/pgbouncer"); err != nil { // which is not in the PATH of every user
			kit.SkipWithoutProgram(t, "pgbouncer")
		}
		program = "/usr/sbin/pgbouncer"
	}
	folder, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	for range 5 {
		var at string
		if at, err = startBouncer(t, program, folder, s); err == nil {
			return at
		}
		if !errors.Is(err, errEnded) { // another port helps only if this one was taken
			break
		}
	}
	t.Fatalf("pgtest: pgbouncer does not start: %v\n%s", err, logOf(folder))
	return ""
}

// startBouncer starts it on its own port and waits until it answers.
func startBouncer(t testing.TB, program, folder string, s *Server) (string, error) {
	port, err := testkit.FreePort()
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(bouncerConfig(s, port)), 0o600); err != nil {
		return "", err
	}
	if err := giveToServerUser(file); err != nil {
		return "", err
	}
	p, err := launch(folder, nil, program, file)
	if err != nil {
		return "", err
	}
	u := *s.url
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	u.RawQuery = "sslmode=disable"
	if err := kit.Retry(errEnded, func() error { return pingError(p, u.String()) }); err != nil {
		p.kill()
		return "", err
	}
	t.Cleanup(p.kill)
	return u.String(), nil
}

// bouncerConfig returns a configuration that admits every client, as the server's user.
func bouncerConfig(s *Server, port int) string {
	host, serverPort, _ := net.SplitHostPort(s.Addr()) // Addr always has a port
	return fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
`, host, serverPort, s.url.User.Username(), password(s.url), port)
}

// password returns the part of PgBouncer's connection string with the password, if there is one.
func password(u *url.URL) string {
	text, ok := u.User.Password()
	if !ok || text == "" {
		return ""
	}
	return " password='" + strings.ReplaceAll(text, "'", "''") + "'"
}

// pingError returns an error that says why a server does not answer yet, or nil.
func pingError(p *process, at string) error {
	if p.over() {
		return errEnded
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := pgx.ParseConfig(at)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}
