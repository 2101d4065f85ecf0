package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/kit"
)

// node is one server that this process started.
type node struct {
	bin      string
	folder   string
	port     int
	settings []string
	env      []string // in addition to that of the test
	process  *process
}

// defaultSettings are the settings of every server. Later settings take precedence. fsync stays on, PostgreSQL's default.
var defaultSettings = []string{
	"listen_addresses = '127.0.0.1'", "max_connections = 200", "shared_buffers = 32MB", "logging_collector = off",
	"autovacuum_naptime = 1s",
}

// newNode starts a server with a new data directory, which fill creates. It tries again on another port if the port was
// taken in the meantime.
func newNode(settings, env []string, fill func(bin, folder, data string) error) (*node, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	n := &node{bin: bin, folder: folder, settings: settings, env: env}
	if err = fill(bin, folder, n.data()); err == nil {
		err = n.startSomewhere()
	}
	if err != nil {
		n.remove()
		return nil, err
	}
	return n, nil
}

// copyTemplate fills a data directory with a copy of the template.
func copyTemplate(_, folder, data string) error {
	from, err := template()
	if err != nil {
		return err
	}
	return run(folder, "cp", "-R", from, data)
}

func (n *node) startSomewhere() (err error) {
	for range 5 {
		if n.port, err = testkit.FreePort(); err != nil {
			return err
		}
		if err = n.configure(); err != nil {
			return err
		}
		if err = n.start(); err == nil {
			return nil
		}
		n.process.kill()
		if !errors.Is(err, errEnded) { // another port helps only if this one was taken
			break
		}
	}
	return fmt.Errorf("pgtest: the server does not start: %w\n%s", err, logOf(n.folder))
}

func (n *node) data() string { return filepath.Join(n.folder, "data") }

// configure writes the settings to the configuration file of the data directory.
func (n *node) configure() error {
	lines := append([]string{fmt.Sprintf("port = %d", n.port), fmt.Sprintf("unix_socket_directories = '%s'", n.folder)}, defaultSettings...)
	text := strings.Join(append(lines, n.settings...), "\n") + "\n"
	path := filepath.Join(n.data(), "postgresql.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return giveToServerUser(path)
}

// start starts the process and waits until it answers.
func (n *node) start() (err error) {
	if n.process, err = launch(n.folder, n.env, filepath.Join(n.bin, "postgres"), "-D", n.data()); err != nil {
		return err
	}
	return kit.Retry(errEnded, n.ready)
}

// ready returns an error until our server, and not another one on the same port, answers.
func (n *node) ready() error {
	if n.process.over() {
		return errEnded
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.url("postgres").String()+"&connect_timeout=2")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	if data != n.data() {
		return errors.New("another server answers on the port")
	}
	return nil
}

func (n *node) url(database string) *url.URL {
	return &url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
}

// stop shuts the server down cleanly: it rejects new connections, closes existing ones, and writes its data.
func (n *node) stop() error { return n.process.quit(syscall.SIGINT) }

// remove kills the server and removes its files.
func (n *node) remove() {
	n.process.kill()
	kit.Retry(errEnded, func() error { return os.RemoveAll(n.folder) }) //nolint:errcheck // what is left is swept in the end
}

// Open starts a server for a program that is not a test. Each setting is a line of postgresql.conf. It ends when close
// is called, or with the program. The error is ErrNoServer if PostgreSQL is not installed.
func Open(settings ...string) (url string, close func(), err error) {
	n, err := newNode(settings, nil, copyTemplate)
	if err != nil {
		return "", nil, err
	}
	return n.url("postgres").String(), n.remove, nil
}
