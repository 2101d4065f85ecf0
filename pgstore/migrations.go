package pgstore

import (
	"embed"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var stepFiles embed.FS

// Migration is one step in creating the schema. Every step may be applied again: it leaves existing objects unchanged.
type Migration struct {
	Version int    // 1, 2, ...: the order to apply them in
	Name    string // such as "state"
	Up      string // the statements of the step, for the Schema, Prefix and Durability of some Options
	Down    string // the statements that undo it; steps are undone in reverse order
}

// Migrations returns the steps from an empty database to the schema of this version, for programs that apply them with
// their own tool; MigrationFiles returns them in the format of some tools. The steps create Options.Schema if it does
// not exist, and record themselves where Migrate does, so Migrate has nothing to do after them.
func Migrations(opts Options) ([]Migration, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	unlogged := ""
	if opts.Durability == Unlogged {
		unlogged = "UNLOGGED"
	}
	fill := strings.NewReplacer("{schema}", quote(opts.Schema), "{name}", opts.Schema, "{prefix}", opts.Prefix, "CREATE {unlogged} TABLE",
		strings.Join(strings.Fields("CREATE "+unlogged+" TABLE"), " "))
	entries, err := stepFiles.ReadDir("migrations") // in the order of their names
	if err != nil {
		return nil, err
	}
	var all []Migration
	for _, entry := range entries {
		name, isUp := strings.CutSuffix(entry.Name(), ".sql")
		if strings.HasSuffix(name, ".down") || !isUp {
			continue
		}
		step, err := readStep(name)
		if err != nil {
			return nil, err
		}
		step.Up, step.Down = fill.Replace(step.Up), fill.Replace(step.Down)
		all = append(all, opts.withRecord(step))
	}
	return all, nil
}

// readStep reads the two files of a step, whose name is like 0001_state.
func readStep(name string) (step Migration, err error) {
	number, title, _ := strings.Cut(name, "_")
	step.Name = title
	if step.Version, err = strconv.Atoi(number); err != nil {
		return step, err
	}
	up, err := stepFiles.ReadFile("migrations/" + name + ".sql")
	if err != nil {
		return step, err
	}
	down, err := stepFiles.ReadFile("migrations/" + name + ".down.sql")
	if err != nil {
		return step, err
	}
	step.Up, step.Down = string(up), string(down)
	for _, alias := range []string{"s", "t"} { // rows of a newer format are rejected
		step.Up = strings.ReplaceAll(step.Up, "{readable "+alias+"}",
			fmt.Sprintf(" AND (%[1]s.previous >= -2 OR {schema}.{prefix}readable(%[1]s.previous))", alias))
	}
	return step, nil
}

// withRecord returns a step that waits for concurrent migrations of the same schema, and records itself in the table of
// versions, which it creates if a tool has applied earlier steps without one.
func (o Options) withRecord(step Migration) Migration {
	table := o.versions()
	lock := fmt.Sprintf(`DO $lock$
BEGIN
  PERFORM pg_advisory_xact_lock(%d); -- one at a time
END
$lock$;

`, o.lock())
	up := fmt.Sprintf(`
DO $record$
BEGIN
  IF to_regclass('%[1]s') IS NULL THEN
    CREATE TABLE %[1]s (version int PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now());
  END IF;
  INSERT INTO %[1]s (version, name) VALUES (%[2]d, '%[3]s') ON CONFLICT DO NOTHING;
END
$record$;
`, table, step.Version, step.Name)
	down := fmt.Sprintf(`DO $record$
BEGIN
  IF to_regclass('%[1]s') IS NOT NULL THEN
    DELETE FROM %[1]s WHERE version >= %[2]d;
  END IF;
END
$record$;

`, table, step.Version)
	step.Up, step.Down = lock+step.Up+up, lock+down+step.Down
	return step
}

// versions returns the name of the table of applied steps.
func (o Options) versions() string { return quote(o.Schema) + "." + o.Prefix + "migrations" }

// lock returns the advisory lock for migrations of a schema.
func (o Options) lock() int64 {
	hash := fnv.New64a()
	hash.Write([]byte("slidegate " + quote(o.Schema)))
	return int64(hash.Sum64())
}
