package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Conn is the store's connection to Redis. New makes one from a rueidis client; the package goredis makes one from a
// go-redis client. It is safe for concurrent use.
type Conn interface {
	// Run runs a script once per call, all calls in one round trip to each node, and sets Reply or Err of each. The
	// script is called by its SHA. A call is sent again, with the script's text, only if a node answers that it does
	// not know the script; a call that was not answered is not sent again, because it may have been carried out. Run
	// need not return when ctx ends, and the store then does not wait for it. It keeps no reference to calls after it
	// returns.
	Run(ctx context.Context, script *Script, calls []Call)
	// Cluster reports whether keys are distributed over several nodes, so that one call may only have keys of one hash
	// slot. All keys of a slot must be on one node. A client that distributes keys in another way cannot be a Conn: a
	// call over two keys would go to one server, and a limit would hold once per server.
	Cluster() bool
}

// Script is a Lua script and its SHA-1, by which Redis identifies it.
type Script struct{ Text, SHA string }

// newScript returns a script with its SHA-1.
func newScript(text string) Script {
	sum := sha1.Sum([]byte(text)) // not for security: Redis identifies scripts by it
	return Script{Text: text, SHA: hex.EncodeToString(sum[:])}
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
func (c rueidisConn) Run(ctx context.Context, script *Script, calls []Call) {
	ctx = dialContext{ctx}
	c.run(ctx, "EVALSHA", script.SHA, calls, func(*Call) bool { return true })
	for i := range calls {
		if isNoScript(&calls[i]) {
			c.run(ctx, "EVAL", script.Text, calls, isNoScript)
			return
		}
	}
}

func isNoScript(call *Call) bool {
	known, ok := rueidis.IsRedisErr(call.Err)
	return ok && known.IsNoScript()
}

// run sends the wanted calls, and sets their replies.
func (c rueidisConn) run(ctx context.Context, command, script string, calls []Call, wanted func(*Call) bool) {
	if len(calls) == 1 {
		calls[0].Reply, calls[0].Err = c.client.Do(ctx, c.command(command, script, &calls[0])).ToString()
		return
	}
	commands := make(rueidis.Commands, 0, len(calls))
	sent := make([]*Call, 0, len(calls))
	for i := range calls {
		if call := &calls[i]; wanted(call) {
			commands = append(commands, c.command(command, script, call))
			sent = append(sent, call)
		}
	}
	for i, result := range c.client.DoMulti(ctx, commands...) {
		sent[i].Reply, sent[i].Err = result.ToString()
	}
}

func (c rueidisConn) command(command, script string, call *Call) rueidis.Completed {
	return c.client.B().Arbitrary(command, script, strconv.Itoa(len(call.Keys))).Keys(call.Keys...).Args(call.Args...).Build()
}
