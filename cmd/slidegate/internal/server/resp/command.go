package resp

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// command is a command that clients can send.
type command struct {
	name       string // in lower case
	arity      int    // number of arguments, including the name; -n means n or more
	max        int    // maximum number of arguments, if arity leaves it open; 0 means any number
	key        int    // index of the key, 0 if none
	run        func(c *conn, args [][]byte)
	beforeAuth bool // allowed before authentication
	unqueued   bool // not queued in a transaction
	own        bool // not a Redis command
	admin      bool // for operators, if there are admin tokens
	usage      string
	summary    string

	runs     atomic.Int64
	measured metric.MeasurementOption
}

// longestName is the length of the longest command name.
const longestName = 16

// addCommands builds the table of commands.
func (s *Server) addCommands(throttle bool) {
	s.commands = map[string]*command{}
	for _, cmd := range slices.Concat(policyCommands(), sessionCommands(), transactionCommands(), infoCommands()) {
		s.commands[cmd.name] = cmd
	}
	if throttle {
		cmd := throttleCommand()
		s.commands[cmd.name] = cmd
	}
	for _, cmd := range s.commands {
		s.sorted = append(s.sorted, cmd)
	}
	slices.SortFunc(s.sorted, func(a, b *command) int { return cmp.Compare(a.name, b.name) })
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
	switch {
	case !c.authed && !cmd.beforeAuth:
		c.refuse("NOAUTH", "Authentication required.")
	case !cmd.accepts(len(args)):
		c.decide()
		c.wrongNumber(cmd.name)
	case cmd.admin && !c.isOperator():
		c.decide()
		c.out = appendError(c.out, "NOPERM", "The '"+cmd.name+"' command is for operators; authenticate with an admin token.")
	default:
		if c.batch != nil && cmd.name != allowName {
			c.decide()
		}
		cmd.run(c, args)
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

func (c *conn) wrongNumber(name string) {
	c.fail("wrong number of arguments for '" + name + "' command")
}

// unknown replies to an unknown command. Redis also repeats the arguments, but one of them may be a key.
func (c *conn) unknown(name []byte) {
	switch {
	case is(name, "POST") || is(name, "Host:"): // see isForeign
		c.closing, c.why = true, leftProtocol
	case !c.authed:
		c.refuse("NOAUTH", "Authentication required.")
	default:
		c.fail("unknown command '" + quoted(name) + "'")
	}
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
