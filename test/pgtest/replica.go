package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Replica starts a read-only server that follows this one. It has everything that was committed before the call.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	s.ownOnly()
	return own(t, s.node.settings, s.node.env, func(_, folder, data string) error { return s.node.copyRunning(folder, data) })
}

// copyRunning copies the data of a running server, for a replica of it. It does what pg_basebackup does, which not
// every distribution of the server has.
func (n *node) copyRunning(folder, data string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.url("postgres").String())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	start, stop := "SELECT pg_backup_start('replica', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	if version < 150000 {
		start, stop = "SELECT pg_start_backup('replica', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	if _, err := conn.Exec(ctx, start); err != nil {
		return err
	}
	// A file may disappear while it is copied; replaying the log makes up for that.
	const copyAll = `cp -R "$0" "$1" 2>/dev/null; rm -f "$1"/postmaster.pid "$1"/postmaster.opts; test -f "$1"/PG_VERSION`
	if err := run(folder, "sh", "-c", copyAll, n.data(), data); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, stop).Scan(&label); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"backup_label": label, "standby.signal": "",
		"postgresql.auto.conf": fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'\n", n.port),
	} {
		path := filepath.Join(data, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if err := giveToServerUser(path); err != nil {
			return err
		}
	}
	return nil
}
