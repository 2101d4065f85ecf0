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

// Unprivileged returns the user that a server must run as: nil for the test's own user. If that is root, which many servers refuse
// to run as, it is the first of the named users that exists. A program that starts as root and then changes its user outlives the
// test: the system drops the signal that KillWithParent requests.
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
