package pgstore_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/opentest"
	"github.com/slidegate/slidegate/test/pgtest"
)

func TestOpen(t *testing.T) {
	open := opentest.Opener(pgstore.Open)
	t.Run("server", func(t *testing.T) {
		server := pgtest.Shared(t)
		opentest.Decides(t, open.Open(t, server.URL("slidegate_schema=limits", "pool_max_conns=4")))
	})
	t.Run("unreachable", func(t *testing.T) { open.Unreachable(t, "postgres://u:hunter2@ADDR/limits") })
	t.Run("silent", func(t *testing.T) { open.Silent(t, "postgres://ADDR/limits?connect_timeout=60&sslmode=disable") })
	t.Run("later", func(t *testing.T) {
		server := pgtest.Start(t, "fsync = off")
		server.Stop()
		c := open.Open(t, server.URL())
		opentest.Down(t, c, "refused")
		server.Restart()
		opentest.Decides(t, c)
	})
}

// TestOpenRefused: roles and databases that do not exist, wrong passwords and roles without privileges are errors of Open.
func TestOpenRefused(t *testing.T) {
	open := opentest.Opener(pgstore.Open)
	hba := filepath.Join(t.TempDir(), "pg_hba.conf")
	rules := "host all checked all scram-sha-256\nhost all banned all reject\nlocal all all trust\nhost all all all trust\n"
	if err := os.WriteFile(hba, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(hba); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the server runs as another user
			t.Fatal(err)
		}
	}
	server := pgtest.Start(t, "fsync = off", fmt.Sprintf("hba_file = '%s'", hba))
	server.Exec("CREATE ROLE checked LOGIN PASSWORD 'secret'", "CREATE ROLE banned LOGIN", "CREATE ROLE idle NOLOGIN",
		"REVOKE CREATE ON SCHEMA public FROM PUBLIC", "CREATE DATABASE private", "REVOKE CONNECT ON DATABASE private FROM PUBLIC")
	as := func(user, database string) string {
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, "hunter2")
		if database != "" {
			u.Path = "/" + database
		}
		return u.String()
	}
	for cause, at := range map[string]string{
		"28P01": as("checked", ""), "pg_hba.conf rejects": as("banned", ""), "not permitted to log in": as("idle", ""),
		`role "nobody" does not exist`: as("nobody", ""), "3D000": as("postgres", "nothing"),
		"permission denied for schema":   server.Role(t, "poor"),
		"permission denied for database": strings.Replace(server.Role(t, "outsider"), "/postgres", "/private", 1),
	} {
		t.Run(cause, func(t *testing.T) { open.Refuses(t, at, cause) })
	}
	c := open.Open(t, server.URL()) // migrates
	opentest.Decides(t, c)
	t.Run("no privileges", func(t *testing.T) {
		open.Refuses(t, withParameter(server.Role(t, "reader"), "slidegate_migrate=false"), "permission denied")
	})
}

func withParameter(at, parameter string) string {
	if strings.Contains(at, "?") {
		return at + "&" + parameter
	}
	return at + "?" + parameter
}

// TestOpenNotRefused: a server without connections left and a read-only one are outages that end.
func TestOpenNotRefused(t *testing.T) {
	open := opentest.Opener(pgstore.Open)
	server := pgtest.Start(t, "fsync = off", "default_transaction_read_only = on")
	c := open.Open(t, server.URL())
	kit.Eventually(t, "the store to be connected", func() bool { return c.Err() == nil })
	if err := opentest.Take(t, c); err == nil || errors.Is(err, store.ErrRefused) {
		t.Errorf("got %v, want an error that is not a refusal", err)
	}
	server.Exec("ALTER SYSTEM SET default_transaction_read_only = off", "SELECT pg_reload_conf()")
	opentest.Decides(t, c)

	full := server.Role(t, "full")
	name := strings.Split(strings.TrimPrefix(full, "postgres://"), ":")[0]
	server.Exec("ALTER ROLE " + name + " CONNECTION LIMIT 0")
	limited := open.Open(t, withParameter(full, "slidegate_migrate=false"))
	opentest.Down(t, limited, "53300")
}
