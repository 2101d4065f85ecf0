package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/resp"
)

func TestSession(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	c.ask("PING", "+PONG")
	c.ask("ping hello", "$5", "hello")
	c.ask("PING a b", "-ERR wrong number of arguments for 'ping' command")
	c.ask("ECHO hello", "$5", "hello")
	c.ask("ECHO", "-ERR wrong number of arguments for 'echo' command")
	c.ask("SELECT 0", "+OK")
	c.ask("SELECT 1", "-ERR DB index is out of range")
	c.ask("SELECT x", "-ERR value is not an integer or out of range")
	c.ask("CLIENT ID", ":1")
	c.ask("CLIENT GETNAME", "$-1")
	c.ask("CLIENT SETNAME web-1", "+OK")
	c.ask("client getname", "$5", "web-1")
	c.send(frame("CLIENT", "SETNAME", "web 1"))
	c.expect("-ERR Client names cannot contain spaces, newlines or special characters, and must have at most 256 bytes.\r\n")
	c.ask("CLIENT SETINFO LIB-NAME test", "+OK")
	c.ask("CLIENT SETINFO lib-ver 1.0", "+OK")
	c.ask("CLIENT SETINFO foo x", "-ERR Unrecognized option 'foo'")
	c.send(frame("CLIENT", "SETINFO", "lib-name", "a b"))
	c.expect("-ERR lib-name cannot contain spaces, newlines or special characters.\r\n")
	c.ask("CLIENT NO-EVICT on", "+OK")
	c.ask("CLIENT NO-EVICT OFF", "+OK")
	c.ask("CLIENT NO-EVICT maybe", "-ERR syntax error")
	c.ask("CLIENT NO-TOUCH maybe", "-ERR syntax error")
	c.ask("CLIENT NO-TOUCH on", "+OK")
	c.ask("CLIENT TRACKING on", "-ERR unknown subcommand or wrong number of arguments for 'TRACKING'. Try SG.HELP.")
	c.ask("CONFIG GET save", "*2", "$4", "save", "$0", "")
	c.ask("CONFIG GET appendonly", "*2", "$10", "appendonly", "$2", "no")
	c.ask("CONFIG GET maxmemory", "*0")
	c.ask("CONFIG SET save x", "-ERR CONFIG: only GET with a parameter is supported; configure the service in its file")
	c.ask("GET secret", "-ERR unknown command 'GET'") // without the argument, which may be a key
	c.send(frame("a\r\nb\xff"))
	c.expect("-ERR unknown command 'a  b?'\r\n")
	c.send(frame(strings.Repeat("n", 1000)))
	c.expect("-ERR unknown command '" + strings.Repeat("n", 64) + "'\r\n")
	c.send(frame(""))
	c.expect("-ERR unknown command ''\r\n")
	c.ask("RESET", "+RESET")
	c.ask("CLIENT GETNAME", "$-1")
	w.dial(t).ask("CLIENT ID", ":2")
	c.send("PING\r\n\r\nping 'a b'\r\n")
	c.expect("+PONG\r\n$3\r\na b\r\n")
	c.send(frame("QUIT") + frame("PING"))
	c.expect("+OK\r\n")
	c.ended()
}

func TestHello(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	helloReply := func(header string, protocol int) string {
		return header + "\r\n$6\r\nserver\r\n$9\r\nslidegate\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:" + fmt.Sprint(protocol) +
			"\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0"
	}
	c.ask("HELLO", helloReply("*14", 2))
	c.ask("HELLO 2", helloReply("*14", 2))
	c.ask("HELLO 3 SETNAME me", helloReply("%7", 3))
	c.ask("HELLO", helloReply("%7", 3))
	c.ask("CLIENT GETNAME", "$2", "me")
	c.ask("HELLO 4", "-NOPROTO unsupported protocol version")
	c.ask("HELLO x", "-ERR Protocol version is not an integer or out of range")
	c.ask("HELLO 2 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'")
	c.ask("HELLO 2 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'")
	c.ask("HELLO 2 SETNAME you AUTH other x", "-WRONGPASS invalid username-password pair or user is disabled.")
	c.ask("HELLO", helloReply("%7", 3)) // nothing of the failed command was done
	c.ask("CLIENT GETNAME", "$2", "me")
	c.ask("CLIENT SETNAME x", "+OK")
	// What differs in RESP3: null, maps and texts. Numbers are an array in both.
	c.ask("CONFIG GET x", "%0")
	c.ask("COMMAND INFO nosuch", "*1", "_")
	c.ask("SG.ALLOW default ann", numbers(1, 10, 9, 0, hour, 1))
	c.send(frame("SG.RESERVE", "default", "ann", "10"))
	c.expect("*7" + strings.TrimPrefix(numbers(0, 10, 9, hour, hour, 0), "*6") + "\r\n_\r\n")
	c.send(frame("INFO"))
	if line, err := c.in.ReadString('\n'); err != nil || line[0] != '=' {
		t.Errorf("INFO: %q, %v", line, err)
	}
	c.expect("txt:# Server\r\n")
}

func TestAuth(t *testing.T) {
	w := open(t, resp.Options{Tokens: []string{"first", "second"}})
	const (
		noAuth = "-NOAUTH Authentication required."
		wrong  = "-WRONGPASS invalid username-password pair or user is disabled."
	)
	c := w.dial(t)
	for _, command := range []string{"PING", "SG.ALLOW default ann", "SG.POLICIES", "COMMAND", "CL.THROTTLE k 1 1 1", "NOSUCH", "ECHO", "SELECT 0"} {
		c.ask(command, noAuth)
	}
	c.send(frame("HELLO", "3"))
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-NOAUTH HELLO must be called with the client already authenticated") {
		t.Errorf("HELLO: %q, %v", line, err)
	}
	c.ask("AUTH third", wrong)
	c.ask("AUTH someone fir", wrong)
	c.ask("AUTH", "-ERR wrong number of arguments for 'auth' command")
	c.ask("HELLO 2 AUTH default third", wrong)
	c.ask("PING", noAuth)
	c.ask("AUTH second", "+OK")
	c.ask("PING", "+PONG")
	c.ask("AUTH third", wrong) // an authenticated client stays authenticated, as in Redis
	c.ask("PING", "+PONG")
	c.ask("RESET", "+RESET")
	c.ask("PING", noAuth)
	c.ask("AUTH anyone first", "+OK")
	c.ask("PING", "+PONG")

	c = w.dial(t) // in one command
	c.send(frame("HELLO", "3", "AUTH", "default", "first") + frame("PING"))
	for !strings.HasPrefix(c.line(), "+PONG") {
	}
	c = w.dial(t) // commands before authentication must be small
	c.send("*11\r\n")
	c.expect("-ERR Protocol error: invalid multibulk length\r\n")
	c.ended()
	c = w.dial(t)
	c.send("*2\r\n$4\r\nAUTH\r\n$16385\r\n")
	c.expect("-ERR Protocol error: invalid bulk length\r\n")
	c.ended()
	c = w.dial(t)
	c.ask("AUTH first", "+OK")
	c.ask(strings.Repeat("PING ", 11), "-ERR wrong number of arguments for 'ping' command")
	c.ask("QUIT", "+OK")

	c = open(t, resp.Options{}).dial(t) // without tokens
	c.ask("AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	c.ask("AUTH default x", "+OK")
	c.ask("AUTH other x", wrong)
}

func (c *client) line() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return line
}

func TestAbout(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	c.send(frame("COMMAND", "COUNT") + frame("COMMAND", "LIST"))
	count := c.line()
	if list := c.line(); count[1:] != list[1:] {
		t.Errorf("COUNT returned %q and LIST %q", count, list)
	}
	for range 31 {
		c.bulk()
	}
	c.ask("COMMAND INFO SG.ALLOW", "*1", "*10", "$8", "sg.allow", ":-3", "*1", "+write", ":2", ":2", ":1", "*0", "*0", "*0", "*0")
	c.ask("COMMAND INFO ping nosuch", "*2", "*10", "$4", "ping", ":-1", "*0", ":0", ":0", ":0", "*0", "*0", "*0", "*0", "$-1")
	c.ask("COMMAND DOCS echo nosuch", "*2", "$4", "echo", "*6", "$7", "summary", "$34", "ECHO message: Returns the message.",
		"$5", "since", "$5", "1.0.0", "$5", "group", "$10", "connection")
	c.ask("COMMAND NOSUCH", "-ERR unknown subcommand or wrong number of arguments for 'NOSUCH'. Try SG.HELP.")
	c.send(frame("INFO"))
	info := c.bulk()
	for _, want := range []string{"redis_version:7.2.0\r\n", "connected_clients:1\r\n", "role:master\r\n"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO lacks %q: %q", want, info)
		}
	}
	for section, want := range map[string]string{"server": "# Server", "CLIENTS": "# Clients", "replication": "# Replication", "nosuch": ""} {
		c.send(frame("INFO", section))
		if got := c.bulk(); !strings.HasPrefix(got, want) || strings.Count(got, "# ") != strings.Count(want, "# ") {
			t.Errorf("INFO %s: got %q", section, got)
		}
	}
	for _, all := range []string{"all", "default", "everything"} {
		c.send(frame("INFO", all))
		if got := c.bulk(); strings.Count(got, "# ") != 3 {
			t.Errorf("INFO %s: got %q", all, got)
		}
	}
	c.send(frame("SG.HELP") + frame("PING"))
	var help []string
	for line := ""; line != "+PONG\r\n"; line = c.line() {
		help = append(help, line)
	}
	for _, want := range []string{"+SG.ALLOW policy key [cost]: ", "+CL.THROTTLE key max_burst"} {
		if !strings.Contains(strings.Join(help, ""), want) {
			t.Errorf("SG.HELP lacks %q", want)
		}
	}
}

func TestOptions(t *testing.T) {
	w := newWorld(t, resp.Options{})
	if _, err := resp.New(nil, nil, resp.Options{}); err == nil || !strings.Contains(err.Error(), "policies") {
		t.Errorf("no policies: got %v", err)
	}
	for _, c := range []struct {
		opts resp.Options
		want string
	}{
		{resp.Options{MaxConnections: -1}, "MaxConnections"},
		{resp.Options{MaxBulk: 1}, "MaxBulk"},
		{resp.Options{MaxBulk: 1 << 30}, "MaxBulk"},
		{resp.Options{MaxArgs: 2}, "MaxArgs"},
		{resp.Options{MaxPipeline: -5}, "MaxPipeline"},
		{resp.Options{MaxPeriods: -5}, "MaxPeriods"},
		{resp.Options{ReadTimeout: -1}, "ReadTimeout"},
		{resp.Options{WriteTimeout: -1}, "WriteTimeout"},
		{resp.Options{AuthTimeout: -1}, "AuthTimeout"},
		{resp.Options{Tokens: []string{"a", ""}}, "Tokens"},
	} {
		if _, err := resp.New(w.gate, nil, c.opts); err == nil || !strings.HasPrefix(err.Error(), "resp: "+c.want+": ") {
			t.Errorf("%+v: got %v, want an error about %s", c.opts, err, c.want)
		}
	}
}
