package resp

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// command is a command that clients can send.
type command struct {
	name   string  // in lower case
	arity  int     // number of arguments, including the name; -n means n or more
	max    int     // maximum number of arguments, if arity leaves it open; 0 means any number
	key    int     // index of the key, 0 if none
	op     gate.Op // what the gate does for it, if the gate does anything
	rights rights
	run    func(c *conn, cmd *command, args [][]byte)

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
		{name: "auth", arity: -2, max: 3, rights: beforeAuth, run: (*conn).auth},
		{name: throttleName, arity: -1, key: 1, run: (*conn).throttleKey},
		{name: "client", arity: -2, run: (*conn).clientCommand},
		{name: "command", arity: -1, run: (*conn).describeCommands},
		{name: "config", arity: -3, run: (*conn).config},
		{name: "discard", arity: 1, rights: unqueued, run: (*conn).discard},
		{name: "echo", arity: 2, run: (*conn).echo},
		{name: execName, arity: 1, rights: unqueued, run: (*conn).exec},
		{name: "hello", arity: -1, rights: beforeAuth, run: (*conn).hello},
		{name: "info", arity: -1, run: (*conn).info},
		{name: "multi", arity: 1, rights: unqueued, run: (*conn).multi},
		{name: "ping", arity: -1, max: 2, run: (*conn).ping},
		{name: "quit", arity: -1, rights: beforeAuth | unqueued, run: (*conn).quit},
		{name: "reset", arity: 1, rights: beforeAuth | unqueued, run: (*conn).reset},
		{name: "select", arity: 2, run: (*conn).selectDatabase},
		{name: allowName, arity: -3, max: 6, key: 2, op: gate.Allow, run: (*conn).allow},
		{name: "sg.peek", arity: -3, max: 4, key: 2, op: gate.Peek, run: (*conn).decideKey},
		{name: "sg.reset", arity: 3, key: 2, op: gate.Reset, rights: admin, run: (*conn).decideKey},
		{name: "watch", arity: -2, rights: unqueued, run: (*conn).watch},
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
	c.fail("unknown subcommand or wrong number of arguments for '" + quoted(args[1]) + "'")
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

// describeCommands runs COMMAND, which clients of a cluster and redis-cli send.
func (c *conn) describeCommands(_ *command, args [][]byte) {
	if len(args) > 1 {
		c.unknownSubcommand(args)
		return
	}
	c.out = appendArray(c.out, len(c.server.sorted))
	for _, cmd := range c.server.sorted {
		c.describe(cmd)
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
