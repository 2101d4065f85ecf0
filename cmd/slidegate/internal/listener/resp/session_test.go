package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
)

func TestSession(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	c.exchange("PING", "+PONG")
	c.exchange("ping hello", "$5", "hello")
	c.exchange("PING a b", "-ERR wrong number of arguments for 'ping' command")
	c.exchange("ECHO hello", "$5", "hello")
	c.exchange("ECHO", "-ERR wrong number of arguments for 'echo' command")
	c.exchange("SELECT 0", "+OK")
	c.exchange("SELECT 1", "-ERR DB index is out of range")
	c.exchange("SELECT x", "-ERR value is not an integer or out of range")
	c.exchange("CLIENT ID", ":1")
	c.exchange("CLIENT SETNAME web-1", "+OK")
	c.exchange("client getname", "$-1")
	c.exchange("CLIENT SETINFO LIB-NAME test", "+OK")
	c.exchange("CLIENT NO-EVICT on", "+OK")
	c.exchange("CLIENT NO-TOUCH on", "+OK")
	c.exchange("CLIENT SETNAME", "-ERR unknown subcommand or wrong number of arguments for 'SETNAME'")
	c.exchange("CLIENT TRACKING on", "-ERR unknown subcommand or wrong number of arguments for 'TRACKING'")
	c.exchange("CONFIG GET save", "*2", "$4", "save", "$0", "")
	c.exchange("CONFIG SET save x", "-ERR CONFIG: only GET is supported; configure the service in its file")
	c.exchange("INFO", "$21", "redis_version:7.2.0\r\n")
	c.exchange("INFO server", "$21", "redis_version:7.2.0\r\n")
	c.exchange("GET secret", "-ERR unknown command 'GET'") // without the argument, which may be a key
	c.send(frame("a\r\nb\xff"))
	c.expect("-ERR unknown command 'a  b?'\r\n")
	c.send(frame(strings.Repeat("n", 1000)))
	c.expect("-ERR unknown command '" + strings.Repeat("n", 64) + "'\r\n")
	c.send(frame(""))
	c.expect("-ERR unknown command ''\r\n")
	c.exchange("RESET", "+RESET")
	w.dial(t).exchange("CLIENT ID", ":2")
	c.send(frame("QUIT") + frame("PING"))
	c.expect("+OK\r\n")
	c.expectClosed()
}

func TestHello(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	helloReply := func(header string, protocol int) string {
		return header + "\r\n$6\r\nserver\r\n$9\r\nslidegate\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:" + fmt.Sprint(protocol) +
			"\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0"
	}
	c.exchange("HELLO", helloReply("*14", 2))
	c.exchange("HELLO 2", helloReply("*14", 2))
	c.exchange("HELLO 3 SETNAME me", helloReply("%7", 3))
	c.exchange("HELLO", helloReply("%7", 3))
	c.exchange("HELLO 4", "-NOPROTO unsupported protocol version")
	c.exchange("HELLO x", "-ERR Protocol version is not an integer or out of range")
	c.exchange("HELLO 2 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'")
	c.exchange("HELLO 2 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'")
	c.exchange("HELLO 2 SETNAME you AUTH other x", "-WRONGPASS invalid username-password pair or user is disabled.")
	c.exchange("HELLO", helloReply("%7", 3)) // nothing of the failed command was done
	// What differs in RESP3: null and maps. Numbers are an array in both.
	c.exchange("CLIENT GETNAME", "_")
	c.exchange("CONFIG GET x", "%1", "$1", "x", "$0", "")
	c.exchange("SG.ALLOW default ann", numbers(1, 10, 9, 0, hour, 1))
}

func TestAuth(t *testing.T) {
	w := open(t, resp.Options{Tokens: []string{"first", "second"}})
	const (
		noAuth = "-NOAUTH Authentication required."
		wrong  = "-WRONGPASS invalid username-password pair or user is disabled."
	)
	c := w.dial(t)
	for _, command := range []string{"PING", "SG.ALLOW default ann", "COMMAND", "CL.THROTTLE k 1 1 1", "NOSUCH", "ECHO", "SELECT 0"} {
		c.exchange(command, noAuth)
	}
	c.send(frame("HELLO", "3"))
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-NOAUTH HELLO must be called with the client already authenticated") {
		t.Errorf("HELLO: %q, %v", line, err)
	}
	c.exchange("AUTH third", wrong)
	c.exchange("AUTH someone fir", wrong)
	c.exchange("AUTH", "-ERR wrong number of arguments for 'auth' command")
	c.exchange("HELLO 2 AUTH default third", wrong)
	c.exchange("PING", noAuth)
	c.exchange("AUTH second", "+OK")
	c.exchange("PING", "+PONG")
	c.exchange("AUTH third", wrong) // an authenticated client stays authenticated, as in Redis
	c.exchange("PING", "+PONG")
	c.exchange("RESET", "+RESET")
	c.exchange("PING", noAuth)
	c.exchange("AUTH anyone first", "+OK")
	c.exchange("PING", "+PONG")

	c = w.dial(t) // in one command
	c.send(frame("HELLO", "3", "AUTH", "default", "first") + frame("PING"))
	for !strings.HasPrefix(c.line(), "+PONG") {
	}
	c = w.dial(t) // commands before authentication must be small
	c.send("*11\r\n")
	c.expect("-ERR Protocol error: invalid multibulk length\r\n")
	c.expectClosed()
	c = w.dial(t)
	c.send("*2\r\n$4\r\nAUTH\r\n$16385\r\n")
	c.expect("-ERR Protocol error: invalid bulk length\r\n")
	c.expectClosed()
	c = w.dial(t)
	c.exchange("AUTH first", "+OK")
	c.exchange(strings.Repeat("PING ", 11), "-ERR wrong number of arguments for 'ping' command")
	c.exchange("QUIT", "+OK")

	c = open(t, resp.Options{}).dial(t) // without tokens
	c.exchange("AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	c.exchange("AUTH default x", "+OK")
	c.exchange("AUTH other x", wrong)
}

func (c *client) line() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return line
}

func TestCommandCommand(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	c.send(frame("COMMAND") + frame("PING"))
	var all strings.Builder
	for line := ""; line != "+PONG\r\n"; line = c.line() {
		all.WriteString(line)
	}
	for _, want := range []string{
		"*10\r\n$8\r\nsg.allow\r\n:-3\r\n*1\r\n+write\r\n:2\r\n:2\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n",
		"*10\r\n$4\r\nping\r\n:-1\r\n*0\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*0\r\n",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("COMMAND lacks %q", want)
		}
	}
	c.exchange("COMMAND DOCS", "-ERR unknown subcommand or wrong number of arguments for 'DOCS'")
}

func TestOptions(t *testing.T) {
	if _, err := resp.New(nil, nil, resp.Options{}); err == nil || !strings.Contains(err.Error(), "policies") {
		t.Errorf("no policies: got %v", err)
	}
}
