package redisstore

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Conn is the store's connection to Redis. New makes one from a rueidis client; the package goredis makes one from a
// go-redis client. It is safe for concurrent use.
type Conn interface {
	// Run sends a command, EVALSHA or EVAL, with a script's SHA-1 or text once per call, all calls in one round trip to each node, and
	// sets Reply or Err of each. A call that was not answered is not sent again, because it may have been carried out. An Err that a
	// server returned has the server's text, which begins with its code. Run need not return when ctx ends, and the store then does not
	// wait for it. It keeps no reference to calls after it returns.
	Run(ctx context.Context, command, script string, calls []Call)
	// Cluster reports whether keys are distributed over several nodes, so that one call may only have keys of one hash
	// slot. All keys of a slot must be on one node. A client that distributes keys in another way cannot be a Conn: a
	// call over two keys would go to one server, and a limit would hold once per server.
	Cluster() bool
}

// lua is a script and its SHA-1, by which Redis identifies it.
type lua struct{ text, sha string }

func newScript(text string) lua {
	sum := sha1.Sum([]byte(text)) // not for security: Redis identifies scripts by it
	return lua{text: text, sha: hex.EncodeToString(sum[:])}
}

// run runs a script once per call. Calls of nodes that do not know it are sent again, with its text.
func (l *lua) run(ctx context.Context, conn Conn, calls []Call) {
	conn.Run(ctx, "EVALSHA", l.sha, calls)
	var unknown []int
	for i := range calls {
		if err := calls[i].Err; err != nil && strings.HasPrefix(cmp.Or(replyOf(err), err.Error()), "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return
	}
	again := make([]Call, len(unknown))
	for i, at := range unknown {
		again[i] = calls[at]
	}
	conn.Run(ctx, "EVAL", l.text, again)
	for i, at := range unknown {
		calls[at] = again[i]
	}
}

// Call is one call of a script.
type Call struct {
	Keys  []string
	Args  []string
	Reply string
	Err   error
}

// rueidisConn is a Conn over a rueidis client.
type rueidisConn struct{ client rueidis.Client }

func (c rueidisConn) Cluster() bool { return c.client.Mode() == rueidis.ClientModeCluster }

// dialContext is the context of a call through rueidis. Callers that need a new connection share one dial, which rueidis makes
// with the context of the first of them. That caller must not end the dial by leaving, or all others would fail with it. So
// this context is never done and has no deadline, and rueidis bounds dials and calls by its own timeouts. Err is the caller's,
// so that nothing is sent for a caller that left while the connection was made.
type dialContext struct{ context.Context }

// never is not nil: where a context might end, rueidis waits for replies in the background, and so notices at once if an idle
// connection breaks.
var never = make(chan struct{})

func (dialContext) Done() <-chan struct{} { return never }

func (dialContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Run does not return when ctx ends.
func (c rueidisConn) Run(ctx context.Context, command, script string, calls []Call) {
	ctx = dialContext{ctx}
	if len(calls) == 1 {
		calls[0].Reply, calls[0].Err = c.client.Do(ctx, c.command(command, script, &calls[0])).ToString()
		return
	}
	commands := make(rueidis.Commands, len(calls))
	for i := range calls {
		commands[i] = c.command(command, script, &calls[i])
	}
	for i, result := range c.client.DoMulti(ctx, commands...) {
		calls[i].Reply, calls[i].Err = result.ToString()
	}
}

func (c rueidisConn) command(command, script string, call *Call) rueidis.Completed {
	return c.client.B().Arbitrary(command, script, strconv.Itoa(len(call.Keys))).Keys(call.Keys...).Args(call.Args...).Build()
}
