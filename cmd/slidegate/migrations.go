package main

import (
	"fmt"

	"github.com/slidegate/slidegate/pgstore"
)

// migrateCommand prints the schema of the PostgreSQL store, for operators who do not let programs change a schema.
type migrateCommand struct {
	Down     bool   `help:"Print the statement that drops everything instead."`
	Schema   string `placeholder:"NAME" help:"Schema of the tables and the functions, as slidegate_schema in the store's URL. (default: public)"`
	Prefix   string `placeholder:"TEXT" help:"Prefix of their names, as slidegate_prefix in the store's URL. (default: slidegate_)"`
	Unlogged bool   `help:"Create an unlogged table, which is faster to write and empty after a crash, as slidegate_unlogged in the store's URL."`
}

// Run prints a statement. An error names the invalid flag.
func (m *migrateCommand) Run(c *console) error {
	if _, _, err := pgstore.Schema(pgstore.Options{Schema: m.Schema}); err != nil {
		return inFlag("--schema", err)
	}
	create, drop, err := pgstore.Schema(pgstore.Options{Schema: m.Schema, Prefix: m.Prefix, Unlogged: m.Unlogged})
	if err != nil {
		return inFlag("--prefix", err)
	}
	if m.Down {
		create = drop
	}
	_, err = fmt.Fprint(c.out, create)
	return err
}
