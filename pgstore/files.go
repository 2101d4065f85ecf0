package pgstore

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// Tool is a program or a library that applies migrations.
type Tool uint8

// Values of Tool.
const (
	Psql          Tool = iota // slidegate.up.sql and slidegate.down.sql, each for psql --file
	Goose                     // 00001_slidegate_state.sql, ... for github.com/pressly/goose
	GolangMigrate             // 000001_slidegate_state.up.sql and .down.sql, ... for github.com/golang-migrate/migrate
)

// ParseTool returns the tool with this name: psql, goose or golang-migrate.
func ParseTool(name string) (Tool, error) {
	for _, tool := range []Tool{Psql, Goose, GolangMigrate} {
		if tool.String() == name {
			return tool, nil
		}
	}
	return 0, fmt.Errorf("pgstore: tool: %q is unknown; use psql, goose or golang-migrate", name)
}

// String returns the name of the tool.
func (t Tool) String() string {
	switch t {
	case Psql:
		return "psql"
	case Goose:
		return "goose"
	case GolangMigrate:
		return "golang-migrate"
	}
	return fmt.Sprintf("Tool(%d)", uint8(t))
}

// MigrationFiles returns Migrations as files in the format of a tool, all in one directory. The first file has the
// version number first, for directories that also contain the caller's own migrations; 0 means 1. Files for Psql have
// no numbers.
func MigrationFiles(opts Options, tool Tool, first int64) (fs.FS, error) {
	steps, err := Migrations(opts)
	if err != nil {
		return nil, err
	}
	if first < 0 || first > 1<<62 {
		return nil, fmt.Errorf("pgstore: first: %d: use a number from 1 to 2^62, or 0 for 1", first)
	}
	write := map[Tool]func(*folder, []Migration, int64){Psql: writePsql, Goose: writeGoose, GolangMigrate: writeGolangMigrate}[tool]
	if write == nil {
		return nil, fmt.Errorf("pgstore: tool: unknown value %d; use Psql, Goose or GolangMigrate", tool)
	}
	var f folder
	f.archive = zip.NewWriter(&f.bytes)
	write(&f, steps, max(first, 1))
	return f.open()
}

// writePsql writes one script for all steps and one that undoes them, each a transaction.
func writePsql(f *folder, steps []Migration, _ int64) {
	const begin, end = "\\set ON_ERROR_STOP on\nBEGIN;\n\n", "\nCOMMIT;\n"
	var up, down []string
	for _, step := range steps {
		up, down = append(up, step.Up), append([]string{step.Down}, down...)
	}
	f.add("slidegate.up.sql", begin+strings.Join(up, "\n")+end)
	f.add("slidegate.down.sql", begin+strings.Join(down, "\n")+end)
}

// writeGoose writes one file per step. Goose would split statements at every semicolon, also within functions.
func writeGoose(f *folder, steps []Migration, first int64) {
	for i, step := range steps {
		f.add(fmt.Sprintf("%05d_slidegate_%s.sql", first+int64(i), step.Name), "-- +goose Up\n"+
			"-- +goose StatementBegin\n"+step.Up+"-- +goose StatementEnd\n\n"+
			"-- +goose Down\n"+
			"-- +goose StatementBegin\n"+step.Down+"-- +goose StatementEnd\n")
	}
}

// writeGolangMigrate writes two files per step. The tool sends a file as it is, which makes it one transaction.
func writeGolangMigrate(f *folder, steps []Migration, first int64) {
	for i, step := range steps {
		name := fmt.Sprintf("%06d_slidegate_%s", first+int64(i), step.Name)
		f.add(name+".up.sql", step.Up)
		f.add(name+".down.sql", step.Down)
	}
}

// folder builds a file system in memory: in the standard library, that is a zip archive.
type folder struct {
	bytes   bytes.Buffer
	archive *zip.Writer
	err     error
}

func (f *folder) add(name, text string) {
	if f.err != nil {
		return
	}
	file, err := f.archive.Create(name)
	if err == nil {
		_, err = file.Write([]byte(text))
	}
	f.err = err
}

func (f *folder) open() (fs.FS, error) {
	if f.err == nil {
		f.err = f.archive.Close()
	}
	if f.err != nil {
		return nil, fmt.Errorf("pgstore: migrations: %w", f.err)
	}
	return zip.NewReader(bytes.NewReader(f.bytes.Bytes()), int64(f.bytes.Len()))
}
