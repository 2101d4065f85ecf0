package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slidegate/slidegate/pgstore"
)

// migrateCommand writes the migrations of the PostgreSQL store, for operators who apply them with their own tool.
type migrateCommand struct {
	For      string `enum:"psql,goose,golang-migrate" default:"psql" help:"Tool that will apply the migrations: psql, goose, golang-migrate. (default: psql)"`
	Dir      string `placeholder:"DIR" help:"Existing folder to write the files to, instead of printing them."`
	Down     bool   `help:"Print the down migrations instead. With --dir, both directions are written."`
	First    int64  `placeholder:"N" help:"Version number of the first file, for a folder that already has migrations. (default: 1)"`
	Schema   string `placeholder:"NAME" help:"Schema of the table and the functions, as slidegate_schema in the store's URL. (default: public)"`
	Prefix   string `placeholder:"TEXT" help:"Prefix of their names, as slidegate_prefix in the store's URL. (default: slidegate_)"`
	Unlogged bool   `help:"Create an unlogged table, which is faster to write and empty after a crash, as slidegate_unlogged in the store's URL."`
}

// Run prints the migrations, or writes them to files.
func (m *migrateCommand) Run(c *console) error {
	files, err := m.files()
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return err
		}
		switch {
		case m.Dir != "":
			err = writeNew(filepath.Join(m.Dir, entry.Name()), text)
		case m.For == "goose" || strings.HasSuffix(entry.Name(), ".down.sql") == m.Down: // goose has both directions in one file
			_, err = fmt.Fprintf(c.out, "-- %s\n%s\n", entry.Name(), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files returns the files to write, or an error that names the invalid flag.
func (m *migrateCommand) files() (fs.FS, error) {
	tool, err := pgstore.ParseTool(m.For)
	if err != nil {
		return nil, inFlag("--for", err)
	}
	if _, err := pgstore.Migrations(pgstore.Options{Schema: m.Schema}); err != nil {
		return nil, inFlag("--schema", err)
	}
	if _, err := pgstore.Migrations(pgstore.Options{Prefix: m.Prefix}); err != nil {
		return nil, inFlag("--prefix", err)
	}
	opts := pgstore.Options{Schema: m.Schema, Prefix: m.Prefix}
	if m.Unlogged {
		opts.Durability = pgstore.Unlogged
	}
	files, err := pgstore.MigrationFiles(opts, tool, m.First)
	if err != nil {
		return nil, inFlag("--first", err)
	}
	return files, nil
}

// writeNew writes a file that does not exist yet. It does not overwrite an existing file with other content, which may have been
// applied already.
func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		existing, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(existing, text) {
			err = fmt.Errorf("%s already exists and differs; move it away, or write to another folder", path)
		}
		if err != nil {
			return inFlag("--dir", err)
		}
		return nil
	}
	if err != nil {
		return inFlag("--dir", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return inFlag("--dir", err)
	}
	return nil
}
