package resp

import (
	"crypto/sha256"
	"time"
)

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
	c.server.mu.Lock()
	c.server.removeGuestLocked(c)
	c.server.mu.Unlock()
	return true
}

func (c *conn) auth(_ *command, args [][]byte) {
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
func (c *conn) hello(_ *command, args [][]byte) {
	resp3 := c.resp3
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
			at += 2 // as CLIENT SETNAME
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
	c.resp3 = resp3
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
	c.appendPairs("server", "slidegate", "version", redisVersion)
	c.out = appendInt(appendBulk(c.out, "proto"), protocol)
	c.out = appendInt(appendBulk(c.out, "id"), c.id)
	c.appendPairs("mode", "standalone", "role", "master")
	c.out = appendArray(appendBulk(c.out, "modules"), 0)
}

func (c *conn) ping(_ *command, args [][]byte) {
	if len(args) == 2 {
		c.echo(nil, args)
		return
	}
	c.out = append(c.out, "+PONG\r\n"...)
}

func (c *conn) echo(_ *command, args [][]byte) { c.out = appendBulk(c.out, args[1]) }

// clientCommand accepts what clients report about themselves, and keeps nothing.
func (c *conn) clientCommand(_ *command, args [][]byte) {
	switch sub := args[1]; {
	case is(sub, "ID") && len(args) == 2:
		c.out = appendInt(c.out, c.id)
	case is(sub, "GETNAME") && len(args) == 2:
		c.appendNull()
	case (is(sub, "SETNAME") || is(sub, "NO-EVICT") || is(sub, "NO-TOUCH")) && len(args) == 3, is(sub, "SETINFO") && len(args) == 4:
		c.ok()
	default:
		c.unknownSubcommand(args)
	}
}

func (c *conn) selectDatabase(_ *command, args [][]byte) {
	switch n, ok := parseInt(args[1]); {
	case !ok:
		c.fail("value is not an integer or out of range")
	case n != 0:
		c.fail("DB index is out of range")
	default:
		c.ok()
	}
}

func (c *conn) reset(*command, [][]byte) {
	if c.authed && c.server.needsToken() {
		c.authed, c.authBy = false, time.Now().Add(authTimeout)
		c.server.mu.Lock()
		c.server.addGuestLocked(c)
		c.server.mu.Unlock()
	}
	c.token.Store(nil)
	c.endTransaction()
	c.resp3 = false
	c.out = append(c.out, "+RESET\r\n"...)
}

func (c *conn) quit(*command, [][]byte) {
	c.closing = true
	c.ok()
}

// info runs INFO. ioredis and other clients wait on connecting until it succeeds.
func (c *conn) info(*command, [][]byte) {
	c.out = appendBulk(c.out, "redis_version:"+redisVersion+"\r\n")
}

// config runs CONFIG GET, which redis-benchmark sends on connecting. There is nothing to configure.
func (c *conn) config(_ *command, args [][]byte) {
	if !is(args[1], "GET") {
		c.fail("CONFIG: only GET is supported; configure the service in its file")
		return
	}
	c.appendMap(len(args) - 2)
	for _, name := range args[2:] {
		c.appendPairs(string(name), "")
	}
}
