package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slidegate/slidegate/test/kit"
)

// query queries one value over its own connection.
func query(t testing.TB, url, statement string) (value string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, statement).Scan(&value)
	return value, err
}

// checkQuery checks that a query returns a value.
func checkQuery(t testing.TB, url, statement, value string) {
	t.Helper()
	if got, err := query(t, url, statement); err != nil || got != value {
		t.Errorf("%s: got %q, %v, want %q", statement, got, err, value)
	}
}

// sqlState returns the SQLSTATE of an error.
func sqlState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := Start(t, "fsync = on")
	checkQuery(t, s.URL(), "SHOW fsync", "on")
	s.Exec("CREATE TABLE kept (n int)", "CREATE UNLOGGED TABLE lost (n int)", "INSERT INTO kept VALUES (1)", "INSERT INTO lost VALUES (1)")
	addr, ids := s.Addr(), append(children(s.node.process.cmd.Process.Pid), s.node.process.cmd.Process.Pid)
	if len(ids) < 4 { // at least the checkpointer, the background writer and the WAL writer
		t.Errorf("got only the processes %v", ids)
	}
	s.Kill()
	for _, id := range ids {
		if running(id) {
			t.Errorf("process %d runs after Kill", id)
		}
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("a server answers after Kill")
	}
	s.Restart()
	checkQuery(t, s.URL(), "SELECT count(*)::text FROM kept", "1")
	checkQuery(t, s.URL(), "SELECT count(*)::text FROM lost", "0") // as documented for unlogged tables after a crash
	s.Exec("INSERT INTO lost VALUES (1)")
	s.Restart()
	checkQuery(t, s.URL(), "SELECT count(*)::text FROM lost", "1") // which survive a clean shutdown
	if s.Addr() != addr {
		t.Errorf("after Restart got address %s, want %s", s.Addr(), addr)
	}
	s.Stop()
	if _, err := query(t, s.URL(), "SELECT 'x'"); err == nil {
		t.Error("a server answers after Stop")
	}
}

// A backend in the middle of a statement must not finish it after Kill.
func TestKillEndsRunningStatements(t *testing.T) {
	t.Parallel()
	s := Start(t, "fsync = on")
	pool := s.Pool(t)
	ended := make(chan error, 1)
	go func() {
		_, err := pool.Exec(context.Background(), "SELECT pg_sleep(600)")
		ended <- err
	}()
	if err := kit.Retry(errEnded, func() error {
		n, err := query(t, s.URL(), "SELECT count(*)::text FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'")
		if err == nil && n != "1" {
			err = errors.New("the statement does not run yet")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the statement succeeded")
		}
	case <-time.After(patience):
		t.Error("the statement continues")
	}
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	other, s := Start(t, "fsync = off"), Start(t, "fsync = off")
	s.Stop()
	s.node.port = other.node.port
	if err := s.node.configure(); err != nil {
		t.Fatal(err)
	}
	if err := s.node.start(); err == nil {
		t.Error("another server was taken for its own")
	}
}

func TestServerEndsWithTheTest(t *testing.T) {
	t.Parallel()
	var s *Server
	t.Run("inner", func(t *testing.T) { s = Start(t, "fsync = off") })
	if s == nil {
		t.Skip("SKIPPED: there was no server")
	}
	if _, err := query(t, s.URL(), "SELECT 'x'"); err == nil {
		t.Error("the server outlived its test")
	}
	if _, err := os.Stat(s.node.folder); !os.IsNotExist(err) {
		t.Errorf("the server's folder outlived its test: %v", err)
	}
}

func TestSharedDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	var a *Server
	t.Run("inner", func(t *testing.T) {
		a = Shared(t)
		b := Shared(t)
		if a.Addr() != b.Addr() {
			t.Errorf("the servers are at %s and %s", a.Addr(), b.Addr())
		}
		a.Exec("CREATE TABLE t (n int)")
		if _, err := query(t, b.URL(), "SELECT count(*)::text FROM t"); sqlState(err) != "42P01" { // undefined table
			t.Errorf("the other database has the table: %v", err)
		}
	})
	if a == nil {
		t.Skip("SKIPPED: there was no server")
	}
	if _, err := query(t, a.URL(), "SELECT 'x'"); sqlState(err) != "3D000" { // no such database
		t.Errorf("the database outlived its test: %v", err)
	}
	s := Shared(t)
	o := &outcome{TB: t}
	s.t = o
	func() {
		defer func() { _ = recover() }()
		s.Kill()
	}()
	if !strings.HasPrefix(o.got, "fatal: ") {
		t.Errorf("killing the shared server: got %q", o.got)
	}
	checkQuery(t, s.URL(), "SELECT 'x'", "x")
}

func TestDatabaseURLIsUsed(t *testing.T) {
	s := Start(t, "fsync = off")
	t.Setenv("DATABASE_URL", s.URL())
	for name, open := range map[string]func(testing.TB) *Server{
		"Start": func(t testing.TB) *Server { return Start(t) }, "Shared": Shared,
	} {
		t.Run(name, func(t *testing.T) {
			used := open(t)
			if used.Addr() != s.Addr() {
				t.Errorf("got server %s, want the one at DATABASE_URL", used.Addr())
			}
			used.Exec("CREATE TABLE t (n int)") // twice in the same database it would fail
			used.Stop()
			t.Error("a server that is not ours was stopped")
		})
	}
	checkQuery(t, s.URL(), "SELECT count(*)::text FROM pg_database WHERE datname LIKE 'slidegate%'", "0")
}

func TestURL(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	pool := s.Pool(t, "pool_max_conns=3", "application_name=x y")
	if n := pool.Config().MaxConns; n != 3 {
		t.Errorf("got a pool of %d connections", n)
	}
	var name string
	if err := pool.QueryRow(context.Background(), "SHOW application_name").Scan(&name); err != nil || name != "x y" {
		t.Errorf("got the parameter %q, %v", name, err)
	}
	if got := s.URLAt("127.0.0.1:1"); !strings.Contains(got, "@127.0.0.1:1/slidegate_") {
		t.Errorf("another way is %s", got)
	}
}

func TestRole(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	s.Exec("CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
	reader, nobody := s.Role(t, "reader", "SELECT ON TABLE t"), s.Role(t, "nobody")
	checkQuery(t, reader, "SELECT n::text FROM t", "7")
	for url, statement := range map[string]string{reader: "DELETE FROM t RETURNING n::text", nobody: "SELECT n::text FROM t"} {
		if _, err := query(t, url, statement); sqlState(err) != "42501" { // insufficient privilege
			t.Errorf("%s: got error %v, want 42501, insufficient privilege", statement, err)
		}
	}
}

func TestReplica(t *testing.T) {
	t.Parallel()
	s := Start(t, "fsync = off")
	s.Exec("CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
	replica := s.Replica(t)
	checkQuery(t, replica.URL(), "SELECT n::text FROM t", "7")
	if _, err := query(t, replica.URL(), "INSERT INTO t VALUES (8) RETURNING n::text"); sqlState(err) != "25006" { // read-only transaction
		t.Errorf("a write to the replica: got %v, want SQLSTATE 25006", err)
	}
	s.Exec("UPDATE t SET n = 9")
	if err := kit.Retry(errEnded, func() error {
		n, err := query(t, replica.URL(), "SELECT n::text FROM t")
		if err == nil && n != "9" {
			err = fmt.Errorf("it still has %s", n)
		}
		return err
	}); err != nil {
		t.Errorf("the replica does not follow: %v", err)
	}
}

func TestSmallDisk(t *testing.T) {
	t.Parallel()
	s := Start(t, "fsync = off")
	disk := s.SmallDisk(t, 4)
	s.Exec("CREATE TABLE t (text text) TABLESPACE " + disk)
	fill := "INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, %d) RETURNING '1'"
	if _, err := query(t, s.URL(), fmt.Sprintf(fill, 1_000)); err != nil { // about 1 MB
		t.Errorf("what fits is rejected: %v", err)
	}
	if _, err := query(t, s.URL(), fmt.Sprintf(fill, 5_000)); sqlState(err) != "53100" { // disk full
		t.Errorf("5 MB more on a disk of 4 MB: got %v, want SQLSTATE 53100", err)
	}
}

func TestBouncer(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	s.Exec("CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
	at := Bouncer(t, s)
	if strings.Contains(at, s.Addr()) {
		t.Fatalf("%s does not go through PgBouncer", at)
	}
	checkQuery(t, at, "SELECT n::text FROM t", "7")
	checkQuery(t, at, "SELECT current_database()::text", strings.TrimPrefix(s.url.Path, "/"))
}

func TestOpen(t *testing.T) {
	t.Parallel()
	url, end, err := Open("fsync = off")
	if errors.Is(err, ErrNoServer) {
		kit.SkipWithoutProgram(t, "postgres")
	}
	if err != nil {
		t.Fatal(err)
	}
	checkQuery(t, url, "SHOW fsync", "off")
	end()
	if _, err := query(t, url, "SELECT 'x'"); err == nil {
		t.Error("a server answers after the end")
	}
}

const leaveEnv = "PGTEST_LEAVE"

// TestLeaveServersBehind is the other process of TestNothingIsLeftBehind: it starts servers and ends without cleaning up.
func TestLeaveServersBehind(t *testing.T) {
	if os.Getenv(leaveEnv) == "" {
		t.Skip("run by TestNothingIsLeftBehind")
	}
	s, other := Shared(t), Start(t, "fsync = off")
	folder, _ := home()
	fmt.Printf("\n%s %s %s\n", folder, s.URL(), other.URL())
	os.Exit(3)
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	Shared(t) // skips without a server
	cmd := exec.Command(os.Args[0], "-test.run", "^TestLeaveServersBehind$")
	cmd.Env = append(os.Environ(), leaveEnv+"=1")
	printed, _ := cmd.Output() // it ends with status 3
	var fields []string
	for line := range strings.Lines(string(printed)) {
		if strings.HasPrefix(line, "/") {
			fields = strings.Fields(line)
		}
	}
	if len(fields) != 3 {
		t.Fatalf("got %q from the other process, want three fields", printed)
	}
	if err := kit.Retry(errEnded, func() error {
		if _, err := os.Stat(fields[0]); !os.IsNotExist(err) {
			return fmt.Errorf("the folder is there: %v", err)
		}
		for _, url := range fields[1:] {
			if _, err := query(t, url, "SELECT 'x'"); err == nil {
				return errors.New("a server answers")
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// outcome is a test that records how it ended.
type outcome struct {
	testing.TB
	got string
}

func (o *outcome) Helper()           {}
func (o *outcome) Skip(args ...any)  { o.got = "skip: " + args[0].(string); panic(o) }
func (o *outcome) Fatal(args ...any) { o.got = "fatal: " + args[0].(string); panic(o) }

func TestWithoutProgram(t *testing.T) {
	t.Setenv("TEST_POSTGRES_BIN", "")
	t.Setenv("PATH", t.TempDir())
	defer func(was []string) { folders = was }(folders)
	folders = []string{filepath.Join(t.TempDir(), "*")}
	outcomeOf := func() (got string) {
		o := &outcome{TB: t}
		defer func() { got = o.got; _ = recover() }()
		_, err := programs()
		noServer(o, err)
		return ""
	}
	t.Setenv("TEST_REQUIRE", "chromium,pgbouncer")
	if got := outcomeOf(); !strings.HasPrefix(got, "skip: SKIPPED: ") || !strings.Contains(got, "make test installs it") {
		t.Errorf("without postgres: got %q", got)
	}
	t.Setenv("TEST_REQUIRE", "pgbouncer,postgres")
	if got := outcomeOf(); !strings.HasPrefix(got, "fatal: ") {
		t.Errorf("without a required postgres: got %q", got)
	}
}

func TestNewestVersionIsFound(t *testing.T) {
	t.Setenv("TEST_POSTGRES_BIN", "")
	t.Setenv("PATH", t.TempDir())
	base := t.TempDir()
	for _, version := range []string{"9", "15", "16"} {
		folder := filepath.Join(base, version, "bin")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "postgres"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	defer func(was []string) { folders = was }(folders)
	folders = []string{filepath.Join(base, "*/bin")}
	if got, err := programs(); err != nil || got != filepath.Join(base, "16/bin") {
		t.Errorf("found %s, %v", got, err)
	}
}

func TestNamedVersionIsUsed(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TEST_POSTGRES_BIN", folder)
	if got, err := programs(); err == nil || errors.Is(err, ErrNoServer) {
		t.Errorf("found %s, %v in an empty folder, want an error that no test is skipped for", got, err)
	}
	if err := os.WriteFile(filepath.Join(folder, "postgres"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := programs(); err != nil || got != folder {
		t.Errorf("found %s, %v", got, err)
	}
}
