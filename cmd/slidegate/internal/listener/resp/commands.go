package resp

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// command is a command that clients can send.
type command struct {
	name    string // in lower case
	usage   string // its arguments
	summary string
	arity   int     // number of arguments, including the name; -n means n or more
	max     int     // maximum number of arguments, if arity leaves it open; 0 means any number
	key     int     // index of the key, 0 if none
	op      gate.Op // what the gate does for it, if the gate does anything
	rights  rights
	run     func(c *conn, cmd *command, args [][]byte)

	runs atomic.Int64
}

// rights says who may send a command, and when.
type rights uint8

const (
	beforeAuth rights = 1 << iota // also clients that have not authenticated
	unqueued                      // in a transaction it is not queued, but run
	admin                         // only operators, if there are admin tokens
)

// commandTable lists the commands, by name. docs/resp.md lists the same.
func commandTable() []*command {
	return []*command{
		{name: "auth", usage: "[username] token", summary: "Authenticates with a token.", arity: -2, max: 3, rights: beforeAuth, run: (*conn).auth},
		{name: throttleName, usage: "key max_burst count period [quantity]", arity: -1, key: 1, run: (*conn).throttleKey,
			summary: "Takes quantity units from a bucket of max_burst+1, like the module redis-cell."},
		{name: "client", usage: "ID | GETNAME | SETNAME name | SETINFO attribute value | NO-EVICT on|off | NO-TOUCH on|off",
			summary: "Accepts what clients report about themselves.", arity: -2, run: (*conn).clientCommand},
		{name: "command", usage: "[DOCS [name ...]]", summary: "Describes the commands.", arity: -1, run: (*conn).describeCommands},
		{name: "config", usage: "GET parameter", summary: "Returns an empty value, for redis-benchmark.", arity: -3, run: (*conn).config},
		{name: "discard", summary: "Drops the queued commands.", arity: 1, rights: unqueued, run: (*conn).discard},
		{name: "echo", usage: "message", summary: "Returns the message.", arity: 2, run: (*conn).echo},
		{name: execName, summary: "Runs the queued commands, and returns their replies in one array.", arity: 1, rights: unqueued, run: (*conn).exec},
		{name: "hello", usage: "[protover [AUTH username token] [SETNAME name]]", summary: "Chooses RESP2 or RESP3.", arity: -1, rights: beforeAuth, run: (*conn).hello},
		{name: "info", summary: "Returns the version, for clients that ask whether the server is ready.", arity: -1, run: (*conn).info},
		{name: "multi", summary: "Begins a transaction: commands are queued until EXEC.", arity: 1, rights: unqueued, run: (*conn).multi},
		{name: "ping", usage: "[message]", summary: "Returns PONG, or the message.", arity: -1, max: 2, run: (*conn).ping},
		{name: "quit", summary: "Closes the connection.", arity: -1, rights: beforeAuth | unqueued, run: (*conn).quit},
		{name: "reset", summary: "Resets the connection to its initial state.", arity: 1, rights: beforeAuth | unqueued, run: (*conn).reset},
		{name: "select", usage: "0", summary: "There is one database, 0.", arity: 2, run: (*conn).selectDatabase},
		{name: "sg.acquire", usage: "policy key [cost] [WAIT milliseconds] [ID id]", arity: -3, max: 8, key: 2, op: gate.Acquire, run: (*conn).hold,
			summary: "Takes slots of in-flight limits, and cost units of others; also returns a reservation, and how long it holds them."},
		{name: allowName, usage: "policy key [cost] [WAIT milliseconds] [ID id]", arity: -3, max: 8, key: 2, op: gate.Allow, run: (*conn).allow,
			summary: "Takes cost units (default 1), all or none; a cost of 0 checks whether a unit is left."},
		{name: "sg.allowupto", usage: "policy key cost", arity: 4, key: 2, op: gate.AllowUpTo, run: (*conn).decideKey,
			summary: "Takes as much of cost units as the limits admit now, at least one."},
		{name: "sg.cancel", usage: "policy reservation | policy key ID id", arity: -3, max: 5, op: gate.Cancel, run: (*conn).cancel,
			summary: "Refunds all of a reservation, or of the call with an ID."},
		{name: "sg.charge", usage: "policy key [cost]", arity: -3, max: 4, key: 2, op: gate.Charge, run: (*conn).decideKey,
			summary: "Charges cost units without a check, even beyond the quota."},
		{name: "sg.peek", usage: "policy key [cost]", arity: -3, max: 4, key: 2, op: gate.Peek, run: (*conn).decideKey,
			summary: "Returns what SG.ALLOW would return, and takes nothing."},
		{name: "sg.policies", summary: "Lists the names of the policies.", arity: 1, run: (*conn).listPolicies},
		{name: "sg.refund", usage: "policy key [cost]", arity: -3, max: 4, key: 2, op: gate.Refund, rights: admin, run: (*conn).decideKey,
			summary: "Refunds cost units, the oldest first; granted is how many."},
		{name: "sg.release", usage: "policy reservation", summary: "Releases the slots of a reservation.", arity: 3, op: gate.Release, run: (*conn).endReservation},
		{name: "sg.renew", usage: "policy reservation", arity: 3, op: gate.Renew, run: (*conn).endReservation,
			summary: "Holds the slots and units of a reservation for another time to live; allowed is 0 if some were lost."},
		{name: "sg.reserve", usage: "policy key cost [WAIT milliseconds] [ID id]", arity: -4, max: 8, key: 2, op: gate.Reserve, run: (*conn).hold,
			summary: "Takes an estimate; also returns a reservation, or null, and how long it holds what it took."},
		{name: "sg.reset", usage: "policy key", summary: "Deletes what the key has used.", arity: 3, key: 2, op: gate.Reset, rights: admin, run: (*conn).decideKey},
		{name: "sg.settle", usage: "policy reservation cost|limit=cost [limit=cost ...]", arity: -4, op: gate.Settle, run: (*conn).endReservation,
			summary: "Replaces a reservation's estimates with what was used."},
		{name: "watch", usage: "key [key ...]", summary: "Not supported; returns an error.", arity: -2, rights: unqueued, run: (*conn).watch},
	}
}

// longestName is the length of the longest command name.
const longestName = 16

// addCommands fills the server's commands.
func (s *Server) addCommands(throttle bool) {
	s.commands = map[string]*command{}
	for _, cmd := range commandTable() {
		if cmd.name != throttleName || throttle {
			s.commands[cmd.name], s.sorted = cmd, append(s.sorted, cmd)
		}
	}
}

// find returns the command of that name, in any case; nil if there is none.
func (s *Server) find(name []byte) *command {
	if len(name) > longestName {
		return nil
	}
	var small [longestName]byte
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		small[i] = c
	}
	return s.commands[string(small[:len(name)])]
}

// run runs a command, or queues it.
func (c *conn) run(args [][]byte) {
	if c.transaction != nil && c.queue(args) {
		return
	}
	cmd := c.last
	if cmd == nil || !bytes.Equal(args[0], c.lastName) {
		cmd = c.server.find(args[0])
		if cmd == nil {
			c.decide()
			c.unknown(args[0])
			return
		}
		c.lastName = append(c.lastName[:0], args[0]...)
	}
	c.runCommand(cmd, args)
}

// runCommand runs a known command.
func (c *conn) runCommand(cmd *command, args [][]byte) {
	c.count(cmd)
	c.running = true
	if c.batch != nil && cmd.name != allowName {
		c.decide()
	}
	switch {
	case !c.authed && cmd.rights&beforeAuth == 0:
		c.refuse("NOAUTH", "Authentication required.")
	case !cmd.accepts(len(args)):
		c.decide()
		c.fail("wrong number of arguments for '" + cmd.name + "' command")
	case cmd.rights&admin != 0 && !c.isOperator():
		c.refuse("NOPERM", "The '"+cmd.name+"' command is for operators; authenticate with an admin token.")
	default:
		cmd.run(c, cmd, args)
	}
	c.running = false
}

// accepts reports whether a command accepts that many arguments.
func (cmd *command) accepts(n int) bool {
	if cmd.arity >= 0 {
		return n == cmd.arity
	}
	return n >= -cmd.arity && (cmd.max == 0 || n <= cmd.max)
}

// unknown replies to an unknown command. Redis also repeats the arguments, but one of them may be a key.
func (c *conn) unknown(name []byte) {
	if !c.authed {
		c.refuse("NOAUTH", "Authentication required.")
		return
	}
	c.fail("unknown command '" + quoted(name) + "'")
}

// unknownSubcommand replies to an unknown subcommand.
func (c *conn) unknownSubcommand(args [][]byte) {
	c.fail("unknown subcommand or wrong number of arguments for '" + quoted(args[1]) + "'. Try COMMAND DOCS.")
}

// quoted makes a word of the client safe to show in a reply.
func quoted(word []byte) string {
	const maxBytes = 64
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(word[:min(len(word), maxBytes)]), "?"))
}

// is reports whether a word is this name, in any case.
func is(word []byte, name string) bool { return strings.EqualFold(string(word), name) }

// describeCommands runs COMMAND, which clients of a cluster send to find the keys, and COMMAND DOCS, which redis-cli sends.
func (c *conn) describeCommands(_ *command, args [][]byte) {
	all := c.server.sorted
	switch {
	case len(args) == 1:
		c.out = appendArray(c.out, len(all))
		for _, cmd := range all {
			c.describe(cmd)
		}
	case is(args[1], "DOCS"):
		c.commandDocs(args[2:])
	default:
		c.unknownSubcommand(args)
	}
}

// describe writes what Redis returns about a command: name, arity, flags, the positions of keys, and four empty lists.
func (c *conn) describe(cmd *command) {
	c.out = appendArray(c.out, 10)
	c.out = appendBulk(c.out, cmd.name)
	c.out = appendInt(c.out, int64(cmd.arity))
	if cmd.key > 0 {
		c.appendSet(1)
		c.out = append(c.out, "+write\r\n"...)
	} else {
		c.appendSet(0)
	}
	step := min(1, cmd.key)
	for _, n := range []int{cmd.key, cmd.key, step} {
		c.out = appendInt(c.out, int64(n))
	}
	c.appendSet(0)                // access categories
	c.appendSet(0)                // tips
	c.out = appendArray(c.out, 0) // key specifications
	c.out = appendArray(c.out, 0) // subcommands
}

// commandDocs writes the documentation of the commands of these names, or all; unknown names are omitted.
func (c *conn) commandDocs(names [][]byte) {
	found := c.server.sorted
	if len(names) > 0 {
		found = nil
		for _, name := range names {
			if cmd := c.server.find(name); cmd != nil {
				found = append(found, cmd)
			}
		}
	}
	c.appendMap(len(found))
	for _, cmd := range found {
		group := "connection"
		if cmd.isOwn() {
			group = "module"
		}
		c.out = appendBulk(c.out, cmd.name)
		c.appendMap(3)
		c.appendPairs("summary", cmd.description(), "since", "1.0.0", "group", group)
	}
}

// isOwn reports whether a command is not one of Redis.
func (cmd *command) isOwn() bool { return strings.Contains(cmd.name, ".") }

// description returns the usage of a command, and what it does.
func (cmd *command) description() string {
	return strings.TrimSpace(strings.ToUpper(cmd.name)+" "+cmd.usage) + ": " + cmd.summary
}
