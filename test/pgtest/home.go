package pgtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/slidegate/slidegate/test/kit"
)

// home is the directory of all servers of this process. It is created once.
var home = sync.OnceValues(makeHome)

// sweep waits until its input ends, which happens when the test's process ends in any way, and then removes what the
// process may have left: servers by their ids, small disks, and the directory. A server that is being killed may still
// write for a moment.
const sweep = `cat >/dev/null
for f in "$0"/*/pid; do [ -f "$f" ] && kill -9 "$(cat "$f")"; done
for d in "$0"/*/disk*; do [ -d "$d" ] && umount -l "$d"; done
for i in 1 2 3 4 5; do rm -rf "$0" && break; sleep 1; done`

// kept holds the write end of the sweeper's input, which would be closed if it were garbage collected.
var kept []io.Closer

func makeHome() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "pgtest-"); err != nil {
		return "", err
	}
	cmd := exec.Command("sh", "-c", sweep, folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard must not reach the sweeper
	input, err := cmd.StdinPipe()
	if err == nil {
		kept = append(kept, input)
		err = cmd.Start()
	}
	if err == nil {
		err = giveToServerUser(folder)
	}
	if err != nil {
		os.RemoveAll(folder)
	}
	return folder, err
}

// newFolder creates a directory for one server, which the server's user owns.
func newFolder() (string, error) {
	base, err := home()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(base, "")
	if err != nil {
		return "", err
	}
	return folder, giveToServerUser(folder)
}

// giveToServerUser makes the server's user the owner of a path.
func giveToServerUser(path string) error {
	who, err := unprivileged()
	if err != nil || who == nil {
		return err
	}
	return os.Chown(path, int(who.Uid), int(who.Gid))
}

// unprivileged is the user that servers run as, nil for the test's own: PostgreSQL and PgBouncer refuse to run as root.
var unprivileged = sync.OnceValues(func() (*syscall.Credential, error) { return kit.Unprivileged("postgres", "nobody") })

// command returns a program that runs as the server's user, in a directory that this user may read.
func command(folder, program string, args ...string) (*exec.Cmd, error) {
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who, Setpgid: true}
	return cmd, nil
}

// run runs a program to its end. An error contains its output.
func run(folder, program string, args ...string) error {
	cmd, err := command(folder, program, args...)
	if err != nil {
		return err
	}
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgtest: %s: %w\n%s", filepath.Base(program), err, printed)
	}
	return nil
}

// template is a fresh data directory that servers are copied from: creating it takes a second, copying it does not.
var template = sync.OnceValues(func() (string, error) {
	bin, err := programs()
	if err != nil {
		return "", err
	}
	folder, err := newFolder()
	if err != nil {
		return "", err
	}
	data := filepath.Join(folder, "data")
	return data, run(folder, filepath.Join(bin, "initdb"), "--no-sync", "--auth=trust", "--username=postgres",
		"--encoding=UTF8", "--locale=C", "-D", data)
})
