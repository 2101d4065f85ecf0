package resp

import (
	"crypto/sha256"
	"strings"
	"time"
)

// sessionCommands returns the commands about the connection itself.
func sessionCommands() []*command {
	return []*command{
		{name: "auth", arity: -2, max: 3, beforeAuth: true, run: (*conn).auth, usage: "[username] token", summary: "Authenticates with a token."},
		{name: "hello", arity: -1, beforeAuth: true, run: (*conn).hello, usage: "[protover [AUTH username token] [SETNAME name]]",
			summary: "Chooses RESP2 or RESP3."},
		{name: "ping", arity: -1, max: 2, run: (*conn).ping, usage: "[message]", summary: "Returns PONG, or the message."},
		{name: "echo", arity: 2, run: (*conn).echo, usage: "message", summary: "Returns the message."},
		{name: "client", arity: -2, run: (*conn).clientCommand, usage: "ID | GETNAME | SETNAME name | SETINFO attribute value | NO-EVICT on|off | NO-TOUCH on|off",
			summary: "Accepts what clients report about themselves."},
		{name: "select", arity: 2, run: (*conn).selectDatabase, usage: "0", summary: "There is one database, 0."},
		{name: "reset", arity: 1, beforeAuth: true, unqueued: true, run: (*conn).reset, summary: "Resets the connection to its initial state."},
		{name: "quit", arity: -1, beforeAuth: true, unqueued: true, run: (*conn).quit, summary: "Closes the connection."},
	}
}

// maxFailedAuths is how many invalid tokens a client may send before it is disconnected.
const maxFailedAuths = 5

const wrongToken = "invalid username-password pair or user is disabled."

// authenticate authenticates the client, if the token is valid. Without tokens, only the default user can be named.
func (c *conn) authenticate(user string, token []byte) bool {
	if !c.server.hasTokens() {
		return user == "default"
	}
	before, sum := c.token.Load(), sha256.Sum256(token)
	c.token.Store(&sum) // before the tokens are compared: SetTokens does both in the opposite order
	if !c.server.isValidToken(token) {
		c.token.Store(before)
		if c.failedAuths++; c.failedAuths >= maxFailedAuths {
			c.closing, c.why = true, leftUnauthenticated
		}
		return false
	}
	c.authed = true
	c.server.removeGuest(c)
	return true
}

func (c *conn) auth(args [][]byte) {
	if len(args) == 2 && !c.server.hasTokens() {
		c.fail("AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		return
	}
	user := "default"
	if len(args) == 3 {
		user = string(args[1])
	}
	if !c.authenticate(user, args[len(args)-1]) {
		c.refuse("WRONGPASS", wrongToken)
		return
	}
	c.ok()
}

// hello runs HELLO, all or nothing.
func (c *conn) hello(args [][]byte) {
	resp3, name := c.resp3, c.name
	if len(args) > 1 {
		version, ok := parseInt(args[1])
		if !ok {
			c.fail("Protocol version is not an integer or out of range")
			return
		}
		if version != 2 && version != 3 {
			c.refuse("NOPROTO", "unsupported protocol version")
			return
		}
		resp3 = version == 3
	}
	var user, token []byte
	for at := 2; at < len(args); {
		switch {
		case is(args[at], "AUTH") && at+2 < len(args):
			user, token = args[at+1], args[at+2]
			at += 3
		case is(args[at], "SETNAME") && at+1 < len(args):
			if name = string(args[at+1]); !isValidName(name) {
				c.failName()
				return
			}
			at += 2
		default:
			c.fail("Syntax error in HELLO option '" + quoted(args[at]) + "'")
			return
		}
	}
	if token != nil && !c.authenticate(string(user), token) {
		c.refuse("WRONGPASS", wrongToken)
		return
	}
	if !c.authed {
		c.refuse("NOAUTH", "HELLO must be called with the client already authenticated, otherwise the HELLO "+
			"<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.resp3, c.name = resp3, name
	c.describeServer()
}

// redisVersion is the Redis version whose commands about connections these are; clients check it.
const redisVersion = "7.2.0"

// describeServer writes the reply of HELLO.
func (c *conn) describeServer() {
	protocol := int64(2)
	if c.resp3 {
		protocol = 3
	}
	c.appendMap(7)
	for _, pair := range [][2]string{{"server", "slidegate"}, {"version", redisVersion}} {
		c.out = appendBulk(appendBulk(c.out, pair[0]), pair[1])
	}
	c.out = appendInt(appendBulk(c.out, "proto"), protocol)
	c.out = appendInt(appendBulk(c.out, "id"), c.id)
	for _, pair := range [][2]string{{"mode", "standalone"}, {"role", "master"}} {
		c.out = appendBulk(appendBulk(c.out, pair[0]), pair[1])
	}
	c.out = appendArray(appendBulk(c.out, "modules"), 0)
}

func (c *conn) ping(args [][]byte) {
	if len(args) == 2 {
		c.echo(args)
		return
	}
	c.out = append(c.out, "+PONG\r\n"...)
}

func (c *conn) echo(args [][]byte) { c.out = appendBulk(c.out, args[1]) }

func (c *conn) clientCommand(args [][]byte) {
	switch {
	case is(args[1], "ID") && len(args) == 2:
		c.out = appendInt(c.out, c.id)
	case is(args[1], "GETNAME") && len(args) == 2:
		if c.name == "" {
			c.appendNull()
			return
		}
		c.out = appendBulk(c.out, c.name)
	case is(args[1], "SETNAME") && len(args) == 3:
		if name := string(args[2]); isValidName(name) {
			c.name = name
			c.ok()
			return
		}
		c.failName()
	case is(args[1], "SETINFO") && len(args) == 4:
		c.setInfo(args[2], string(args[3]))
	case (is(args[1], "NO-EVICT") || is(args[1], "NO-TOUCH")) && len(args) == 3:
		if !is(args[2], "ON") && !is(args[2], "OFF") {
			c.fail("syntax error")
			return
		}
		c.ok()
	default:
		c.fail("unknown subcommand or wrong number of arguments for '" + quoted(args[1]) + "'. Try SG.HELP.")
	}
}

// setInfo accepts what a client reports about its library, and keeps nothing.
func (c *conn) setInfo(attribute []byte, value string) {
	switch {
	case !is(attribute, "LIB-NAME") && !is(attribute, "LIB-VER"):
		c.fail("Unrecognized option '" + quoted(attribute) + "'")
	case !isValidName(value):
		c.fail(strings.ToLower(string(attribute)) + " cannot contain spaces, newlines or special characters.")
	default:
		c.ok()
	}
}

// isValidName reports whether a connection name is valid: visible bytes without blanks, and not too long.
func isValidName(name string) bool {
	return len(name) <= 256 && !strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' })
}

func (c *conn) failName() {
	c.fail("Client names cannot contain spaces, newlines or special characters, and must have at most 256 bytes.")
}

func (c *conn) selectDatabase(args [][]byte) {
	switch n, ok := parseInt(args[1]); {
	case !ok:
		c.fail("value is not an integer or out of range")
	case n != 0:
		c.fail("DB index is out of range")
	default:
		c.ok()
	}
}

func (c *conn) reset([][]byte) {
	if c.authed && c.server.needsToken() {
		c.authed, c.authBy = false, time.Now().Add(c.server.opts.AuthTimeout)
		c.server.addGuest(c)
	}
	c.token.Store(nil)
	c.endTransaction()
	c.resp3, c.name = false, ""
	c.out = append(c.out, "+RESET\r\n"...)
}

func (c *conn) quit([][]byte) {
	c.closing = true
	c.ok()
}
