package main

import (
	"strings"
	"testing"
)

func TestMigrations(t *testing.T) {
	for args, want := range map[string]string{
		"":                      `CREATE TABLE "public".slidegate_state (`,
		"--schema rl":           `CREATE SCHEMA "rl"`,
		"--prefix sg_":          `CREATE TABLE "public".sg_state (`,
		"--unlogged":            `CREATE UNLOGGED TABLE "public".slidegate_state (`,
		"--down --prefix drop_": `DROP TABLE IF EXISTS "public".drop_state`,
	} {
		r := callBriefly(t, append([]string{"migrations"}, strings.Fields(args)...)...)
		if r.status != exitOK || !strings.Contains(r.out, want) {
			t.Errorf("%s: got status %d, want %q in the output:\n%s%s", args, r.status, want, r.out, r.err)
		}
		if strings.Contains(r.out, "CREATE ") && strings.Contains(r.out, "DROP TABLE") {
			t.Errorf("%s: got both directions, which psql would run one after the other", args)
		}
	}
}

func TestMigrationsWrongFlags(t *testing.T) {
	for args, flag := range map[string]string{"--schema a'b": "--schema", "--prefix A": "--prefix"} {
		r := callBriefly(t, append([]string{"migrations"}, strings.Fields(args)...)...)
		if r.status != exitFailure || !strings.HasPrefix(r.err, "slidegate: "+flag) {
			t.Errorf("%s: got status %d and\n%swant an error about %s", args, r.status, r.err, flag)
		}
	}
}
