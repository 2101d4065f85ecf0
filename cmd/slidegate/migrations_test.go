package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMigrations(t *testing.T) {
	names := func(dir string) string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, entry := range entries {
			all = append(all, entry.Name())
		}
		return strings.Join(all, " ")
	}
	for _, test := range []struct {
		args, first string
		want        []string
	}{
		{"--for goose --schema rl --first 20260101000000", "20260101000000_slidegate_state.sql ", []string{"+goose StatementBegin", `CREATE SCHEMA "rl"`, "+goose Down"}},
		{"--for golang-migrate --prefix sg_", "000001_slidegate_state.down.sql 000001_slidegate_state.up.sql ", []string{"TABLE IF NOT EXISTS \"public\".sg_state"}},
		{"--unlogged", "slidegate.down.sql slidegate.up.sql", []string{"BEGIN;", "CREATE UNLOGGED TABLE", "COMMIT;"}},
		{"--down", "slidegate.down.sql slidegate.up.sql", []string{"BEGIN;", "DROP TABLE IF EXISTS \"public\".slidegate_state", "COMMIT;"}},
	} {
		args := append([]string{"migrations"}, strings.Fields(test.args)...)
		printed := callBriefly(t, args...)
		for _, want := range test.want {
			if printed.status != exitOK || !strings.Contains(printed.out, want) {
				t.Errorf("%s: got status %d, want %q in the output:\n%s", test.args, printed.status, want, printed.err)
			}
		}
		if both := strings.Contains(printed.out, "CREATE ") && strings.Contains(printed.out, "DROP TABLE"); both && !strings.Contains(test.args, "goose") {
			t.Errorf("%s: got both directions, which psql would run one after the other", test.args)
		}
		dir := t.TempDir()
		for range 2 { // an identical file is left alone
			if r := callBriefly(t, append(args, "--dir", dir)...); r.status != exitOK || r.out != "" {
				t.Errorf("%s --dir: got status %d, %s%s, want success without output", test.args, r.status, r.out, r.err)
			}
		}
		if got := names(dir); !strings.HasPrefix(got, test.first) {
			t.Errorf("%s: got the files %s, want %s...", test.args, got, test.first)
		}
		path := filepath.Join(dir, strings.Fields(names(dir))[0])
		if err := os.WriteFile(path, []byte("SELECT 1;\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := callBriefly(t, append(args, "--dir", dir)...); r.status != exitFailure || !strings.HasPrefix(r.err, "slidegate: --dir: "+path) {
			t.Errorf("%s: changed file: got status %d, %s, want an error about --dir", test.args, r.status, r.err)
		}
	}
}

func TestMigrationsWrongFlags(t *testing.T) {
	for args, flag := range map[string]string{
		"--for flyway": "--for", "--schema a'b": "--schema", "--prefix A": "--prefix", "--for goose --first=-1": "--first",
		"--dir " + filepath.Join(t.TempDir(), "missing"): "--dir",
	} {
		r := callBriefly(t, append([]string{"migrations"}, strings.Fields(args)...)...)
		if r.status != exitFailure || !strings.HasPrefix(r.err, "slidegate: "+flag) {
			t.Errorf("%s: got status %d and\n%swant an error about %s", args, r.status, r.err, flag)
		}
	}
}
