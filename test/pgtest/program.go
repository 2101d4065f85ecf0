package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoServer means that PostgreSQL is not installed.
var ErrNoServer = errors.New("pgtest: there is no postgres, neither in PATH nor in /usr/lib/postgresql")

// folders are where distributions put the programs of a server, one directory per major version.
var folders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"}

// programs returns the directory of the server's programs: the one that TEST_POSTGRES_BIN names, otherwise the one of
// the postgres in PATH, otherwise the newest installed. PATH may contain only some of the programs as links, so links
// are followed.
func programs() (string, error) {
	if bin := os.Getenv("TEST_POSTGRES_BIN"); bin != "" {
		if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
			return "", fmt.Errorf("pgtest: TEST_POSTGRES_BIN: %w", err) // another version in its place would prove nothing
		}
		return bin, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	for _, pattern := range folders {
		found, _ := filepath.Glob(filepath.Join(pattern, "postgres")) // the pattern is well formed
		if len(found) > 0 {
			return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })), nil
		}
	}
	return "", ErrNoServer
}

// major returns the major version in a path such as /usr/lib/postgresql/15/bin/postgres, or 0 if there is none.
func major(path string) int {
	folder := filepath.Base(filepath.Dir(filepath.Dir(path)))
	n, _ := strconv.Atoi(strings.TrimPrefix(folder, "pgsql-"))
	return n
}
