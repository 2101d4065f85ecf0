package resp

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// command is what a client can ask.
type command struct {
	name    string // in small letters
	arity   int    // how many arguments, the name included; -n means n or more
	most    int    // how many at most, if arity leaves that open; 0 means any number
	key     int    // which argument is the key, 0 if none
	run     func(c *conn, args [][]byte)
	always  bool // also for those who have not said the token
	atOnce  bool // it is not queued in a transaction
	own     bool // it is not one of Redis'
	admin   bool // for operators, if there are admin tokens
	usage   string
	summary string

	ran      atomic.Int64
	measured metric.MeasurementOption
}

// longestName is how long the name of a command is at most.
const longestName = 16

// addCommands makes the table of commands.
func (s *Server) addCommands(throttle bool) {
	s.commands = map[string]*command{}
	for _, cmd := range slices.Concat(policyCommands(), sessionCommands(), transactionCommands(), aboutCommands()) {
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

// find returns the command of that name, in capitals or not; nil if there is none.
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

// run answers a command, or queues it.
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

// runCommand answers a command that there is.
func (c *conn) runCommand(cmd *command, args [][]byte) {
	c.count(cmd)
	c.running = true
	switch {
	case !c.authed && !cmd.always:
		c.refuse("NOAUTH", "Authentication required.")
	case !cmd.takes(len(args)):
		c.decide()
		c.wrongNumber(cmd.name)
	case cmd.admin && !c.mayRun():
		c.decide()
		c.out = appendError(c.out, "NOPERM", "The '"+cmd.name+"' command is for operators: say an admin token with AUTH.")
	default:
		if c.batch != nil && cmd.name != allowName {
			c.decide()
		}
		cmd.run(c, args)
	}
	c.running = false
}

// takes tells whether a command can have that many arguments.
func (cmd *command) takes(n int) bool {
	if cmd.arity >= 0 {
		return n == cmd.arity
	}
	return n >= -cmd.arity && (cmd.most == 0 || n <= cmd.most)
}

func (c *conn) wrongNumber(name string) {
	c.fail("wrong number of arguments for '" + name + "' command")
}

// unknown answers a command that there is not. Redis also tells the arguments, but one of them may be a key.
func (c *conn) unknown(name []byte) {
	switch {
	case is(name, "POST") || is(name, "Host:"): // see foreign
		c.leaving, c.why = true, leftProtocol
	case !c.authed:
		c.refuse("NOAUTH", "Authentication required.")
	default:
		c.fail("unknown command '" + quoted(name) + "'")
	}
}

// quoted makes a word of the client fit to be shown to it.
func quoted(word []byte) string {
	const most = 64
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(word[:min(len(word), most)]), "?"))
}

// is tells whether a word is this one, in capitals or not.
func is(word []byte, name string) bool { return strings.EqualFold(string(word), name) }
