package resp

import (
	"fmt"
	"sync/atomic"
)

const execName = "exec"

// redis-py, node-redis and ioredis send MULTI and EXEC around a pipeline by default. EXEC returns the replies of the queued
// commands in order, in one array. Nothing is charged before EXEC, and nothing at all if a command could not be queued. There
// is no isolation: other clients are served at the same time, and a command that fails does not undo the others, as in Redis.

// The bounds of a transaction. A connection holds its commands until EXEC.
const (
	maxQueuedBytes = 1 << 20  // bytes of all their arguments and of their positions
	maxQueuedByAll = 64 << 20 // the same, for all connections
	argumentBytes  = 8        // bytes counted for each element of transaction.ends
	queuedBytes    = 24       // bytes counted for each queued command
)

// transaction holds what was queued since MULTI.
type transaction struct {
	aborted  bool // a command could not be queued, so EXEC runs none
	commands []queued
	text     []byte // all arguments, concatenated
	ends     []int  // where each argument ends in text
	size     int    // bytes that commands, text and ends take
}

// queued is a command that waits for EXEC.
type queued struct {
	command *command
	args    int
}

// queue queues a command until EXEC. It returns false if the command must be run now: one that ends the transaction, or
// one that results in an error and makes EXEC run nothing. A transaction must have begun.
func (c *conn) queue(args [][]byte) bool {
	t := c.transaction
	cmd := c.server.find(args[0])
	switch {
	case cmd == nil || !cmd.accepts(len(args)):
		c.abort()
		if cmd != nil && cmd.name == execName { // it ends the transaction anyway, as in Redis
			c.transaction = nil
		}
		return false
	case cmd.rights&unqueued != 0:
		return false
	}
	if err := t.add(&c.server.queued, cmd, args); err != nil {
		c.abort()
		c.fail(err.Error())
		return true
	}
	c.out = append(c.out, "+QUEUED\r\n"...)
	return true
}

// add queues a command. It copies the arguments, since those of the reader are invalid after its next read. The
// argument all counts the bytes that all connections have queued.
func (t *transaction) add(all *atomic.Int64, cmd *command, args [][]byte) error {
	if t.aborted {
		return nil // it will not be run
	}
	more := queuedBytes
	for _, arg := range args {
		more += len(arg) + argumentBytes
	}
	if t.size+more > maxQueuedBytes {
		return fmt.Errorf("the commands of a transaction can have at most %d bytes; send fewer, or a pipeline without MULTI", maxQueuedBytes)
	}
	if all.Add(int64(more)) > maxQueuedByAll {
		all.Add(int64(-more))
		return fmt.Errorf("the transactions of all clients can have at most %d bytes; send EXEC sooner, or a pipeline without MULTI", maxQueuedByAll)
	}
	t.size += more
	t.commands = append(t.commands, queued{cmd, len(args)})
	for _, arg := range args {
		t.text = append(t.text, arg...)
		t.ends = append(t.ends, len(t.text))
	}
	return nil
}

// abort makes EXEC run nothing, and frees the queued commands. A transaction must have begun.
func (c *conn) abort() {
	c.endTransaction()
	c.transaction = &transaction{aborted: true}
}

// endTransaction frees the queued commands, if any.
func (c *conn) endTransaction() {
	if c.transaction != nil {
		c.server.queued.Add(int64(-c.transaction.size))
		c.transaction = nil
	}
}

func (c *conn) multi(*command, [][]byte) {
	if c.transaction != nil {
		c.fail("MULTI calls can not be nested")
		return
	}
	c.transaction = &transaction{}
	c.ok()
}

func (c *conn) discard(*command, [][]byte) {
	if c.transaction == nil {
		c.fail("DISCARD without MULTI")
		return
	}
	c.endTransaction()
	c.ok()
}

// watch returns an error: a count changes with time alone, so a transaction that runs only if nothing has changed
// cannot be promised. Within a transaction, WATCH makes EXEC run nothing, since the client relies on it.
func (c *conn) watch(*command, [][]byte) {
	if c.transaction != nil {
		c.abort()
		c.fail("WATCH inside MULTI is not allowed")
		return
	}
	c.fail("WATCH is not supported: every command is decided separately; leave it out")
}

func (c *conn) exec(*command, [][]byte) {
	t := c.transaction
	if t == nil {
		c.fail("EXEC without MULTI")
		return
	}
	c.endTransaction()
	if t.aborted {
		c.refuse("EXECABORT", "Transaction discarded because of previous errors.")
		return
	}
	c.out = appendArray(c.out, len(t.commands))
	var args [][]byte
	from, at := 0, 0
	for i, q := range t.commands {
		args = args[:0]
		for range q.args {
			args = append(args, t.text[from:t.ends[at]:t.ends[at]])
			from, at = t.ends[at], at+1
		}
		c.runCommand(q.command, args)
		if c.closing {
			return
		}
		if (i+1)%c.server.opts.MaxPipeline == 0 || len(c.out) >= maxBuffered {
			if why, ok := c.flush(); !ok {
				c.closing, c.why = true, why
				return
			}
		}
	}
	c.decide()
	c.count(nil)
	c.last = nil // it is one of the queued commands, and lastName is EXEC
}
