//go:build unix

package kit

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Unprivileged returns the user that a server must run as: nil for the test's own, or if that is root, which many servers refuse to
// run as, the first of the named users that there is. A program that is started as root and changes its user by itself does not
// die with the test: the system forgets about that.
func Unprivileged(names ...string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("kit: root must not run a server, and there is no user %s", strings.Join(names, " or "))
}
