package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/storetest"
)

func TestWhatErrorsMean(t *testing.T) {
	const inScript = " script: 2f1b7c, on @user_script:120."
	for _, c := range []struct {
		err  error
		want string
	}{
		{reply("READONLY You can't write against a read only replica."), "down undone"},
		{reply("READONLY You can't write against a read only replica." + inScript), "down undone"},
		{reply("ERR Error running script (call to f_2f1b7c): @user_script:9: @user_script: 9: -READONLY You can't write"), "down undone"},
		{reply("OOM command not allowed when used memory > 'maxmemory'." + inScript), "down undone"},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), "down undone"},
		{reply("NOREPLICAS Not enough good replicas to write." + inScript), "down undone"},
		{reply("LOADING Redis is loading the dataset in memory"), "down undone"},
		{reply("MASTERDOWN Link with MASTER is down"), "down undone"},
		{reply("CLUSTERDOWN The cluster is down"), "down undone"},
		{reply("NOAUTH Authentication required."), "down undone refused"},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), "down undone refused"},
		{reply("ERR invalid password"), "down undone refused"},
		{reply("ERR DB index is out of range"), "down undone refused"},
		{reply("NOPERM User app has no permissions to run the 'evalsha' command"), "down undone refused"},
		{reply("NOPERM ACL failure in script: User app has no permissions to run the 'hset' command" + inScript), "refused"},
		{reply("ERR The user executing the script can't run this command or subcommand" + inScript), "refused"},
		{reply("BUSY Redis is busy running a script."), "busy undone"},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), "busy undone"},
		{reply("ERR max number of clients reached"), "busy undone"},
		{reply("MOVED 42 127.0.0.1:7000"), "undone"},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value" + inScript), ""},
		{reply("ERR unknown command 'EVALSHA'"), ""},
		{reply("BUSYKEY Target key name already exists."), ""},
		{fmt.Errorf("failed to connect: %w", reply("WRONGPASS invalid username-password pair")), "down undone refused"},
		{errNetwork, ""}, // only a text
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "down undone"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "busy"},
		{io.EOF, "busy"},
		{rueidis.ErrClosing, "down"},
		{rueidis.ErrNoSlot, "down undone"},
		{errors.New("redis: connection pool timeout"), "busy undone"},
		{context.Canceled, ""},
		{context.DeadlineExceeded, ""},
	} {
		if got := storetest.Marks(callError(&Call{Err: c.err})); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
	repeated := &Call{Keys: []string{"slidegate:::x:{alice@example.com}"}, Err: reply("NOPERM no access to 'slidegate:::x:{alice@example.com}'")}
	if err := callError(repeated); storetest.Marks(err) != "down undone refused" || err.Error() == "redisstore: "+repeated.Err.Error() {
		t.Errorf("an error that repeats a key: got %q, %v", storetest.Marks(err), err)
	}
}
