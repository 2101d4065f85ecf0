package pgstore

import (
	"maps"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	if _, err := driverOf("postgres://u:p%3F@h:5/db?slidegate_schema=my%20own&pool_max_conns=7&slidegate_unlogged=1&slidegate_migrate=false&application_name=a%2Bb"); err == nil {
		t.Fatal("got no error about the space in the schema")
	}
	target, err := parseURL("postgres://u:p%3F@h:5/db?slidegate_schema=own&pool_max_conns=7&slidegate_unlogged=1&slidegate_migrate=false&application_name=a%2Bb")
	if err != nil {
		t.Fatal(err)
	}
	c := target.pool
	if c.MaxConns != 7 || c.ConnConfig.Password != "p?" || c.ConnConfig.Host != "h" || c.ConnConfig.Port != 5 {
		t.Errorf("for pgx: got %d connections, %+v; want 7, to h:5 with the password p?", c.MaxConns, c.ConnConfig)
	}
	if got, want := c.ConnConfig.RuntimeParams, map[string]string{"application_name": "a+b"}; !maps.Equal(got, want) {
		t.Errorf("for the server: got %v, want %v", got, want)
	}
	if target.store.Schema != "own" || !target.store.Unlogged || target.migrate {
		t.Errorf("for the store: got %+v, migrate %v", target.store, target.migrate)
	}
}

// TestWarnsOfPlainText: there is a warning about a connection that may be plain text, unless it stays on this machine.
func TestWarnsOfPlainText(t *testing.T) {
	for url, want := range map[string]bool{
		"postgres://db.example/limits": true, "postgresql://10.0.0.5:5432/limits?sslmode=prefer": true, "postgres://db/l?sslmode=allow": true,
		"postgres://db/l?sslmode=disable": true, "postgres://localhost,db.example/l": true, "postgres:///l?host=db.example": true,
		"postgres://db/l?sslmode=require": false, "postgres://db/l?sslmode=verify-ca": false, "postgres://db/l?sslmode=verify-full": false,
		"postgres://localhost/l": false, "postgres://127.0.0.1/l?sslmode=disable": false, "postgres://[::1]/l": false,
		"postgres:///l?host=/run/postgresql": false,
	} {
		driver, err := driverOf(url)
		if err != nil {
			t.Errorf("%s: got error %v", url, err)
		} else if got := len(driver.Warnings) == 1 && strings.Contains(driver.Warnings[0], "sslmode=verify-full"); got != want {
			t.Errorf("%s: got the warnings %q, want one: %v", url, driver.Warnings, want)
		}
	}
}
