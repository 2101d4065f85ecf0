package resp

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// infoCommands returns the commands that describe the server, most of them for clients that send them on connecting.
func infoCommands() []*command {
	return []*command{
		{name: "command", arity: -1, run: (*conn).commandCommand, usage: "[COUNT | LIST | INFO [name ...] | DOCS [name ...]]",
			summary: "Lists the commands."},
		{name: "config", arity: -2, run: (*conn).config, usage: "GET parameter", summary: "Returns the few parameters that clients read."},
		{name: "info", arity: -1, run: (*conn).info, usage: "[section ...]", summary: "Describes the server."},
		{name: "sg.help", arity: 1, own: true, run: (*conn).help, summary: "Shows how to use the commands."},
	}
}

func (c *conn) commandCommand(args [][]byte) {
	all := c.server.sorted
	switch {
	case len(args) == 1:
		c.out = appendArray(c.out, len(all))
		for _, cmd := range all {
			c.describe(cmd)
		}
	case is(args[1], "COUNT") && len(args) == 2:
		c.out = appendInt(c.out, int64(len(all)))
	case is(args[1], "LIST") && len(args) == 2:
		c.out = appendArray(c.out, len(all))
		for _, cmd := range all {
			c.out = appendBulk(c.out, cmd.name)
		}
	case is(args[1], "INFO"):
		c.commandInfo(args[2:])
	case is(args[1], "DOCS"):
		c.commandDocs(args[2:])
	default:
		c.fail("unknown subcommand or wrong number of arguments for '" + quoted(args[1]) + "'. Try SG.HELP.")
	}
}

// commandInfo describes the commands of these names, or all; null for unknown names.
func (c *conn) commandInfo(names [][]byte) {
	if len(names) == 0 {
		c.out = appendArray(c.out, len(c.server.sorted))
		for _, cmd := range c.server.sorted {
			c.describe(cmd)
		}
		return
	}
	c.out = appendArray(c.out, len(names))
	for _, name := range names {
		if cmd := c.server.find(name); cmd != nil {
			c.describe(cmd)
		} else {
			c.appendNull()
		}
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
		if cmd.own {
			group = "module"
		}
		c.out = appendBulk(c.out, cmd.name)
		c.appendMap(3)
		for _, pair := range [][2]string{{"summary", cmd.description()}, {"since", "1.0.0"}, {"group", group}} {
			c.out = appendBulk(appendBulk(c.out, pair[0]), pair[1])
		}
	}
}

// description returns the usage of a command, and what it does.
func (cmd *command) description() string {
	return strings.TrimSpace(strings.ToUpper(cmd.name)+" "+cmd.usage) + ": " + cmd.summary
}

// parameters holds what redis-benchmark reads before it starts. The values are true: nothing is written to disk.
var parameters = [][2]string{{"appendonly", "no"}, {"save", ""}}

func (c *conn) config(args [][]byte) {
	if !is(args[1], "GET") || len(args) < 3 {
		c.fail("CONFIG: only GET with a parameter is supported; configure the service in its file")
		return
	}
	var found [][2]string
	for _, parameter := range parameters {
		if slices.ContainsFunc(args[2:], func(name []byte) bool { return is(name, parameter[0]) }) {
			found = append(found, parameter)
		}
	}
	c.appendMap(len(found))
	for _, parameter := range found {
		c.out = appendBulk(appendBulk(c.out, parameter[0]), parameter[1])
	}
}

// info writes the requested sections, or all; unknown sections are omitted.
func (c *conn) info(args [][]byte) {
	s := c.server
	sections := []struct{ name, text string }{
		{"server", fmt.Sprintf("# Server\r\nserver_name:slidegate\r\nredis_version:%s\r\nredis_mode:standalone\r\nuptime_in_seconds:%d\r\n",
			redisVersion, int64(time.Since(s.began)/time.Second))},
		{"clients", fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n", s.connected(), s.opts.MaxConnections)},
		{"replication", "# Replication\r\nrole:master\r\n"},
	}
	var texts []string
	for _, section := range sections {
		if len(args) == 1 || slices.ContainsFunc(args[1:], func(name []byte) bool {
			return is(name, section.name) || is(name, "all") || is(name, "default") || is(name, "everything")
		}) {
			texts = append(texts, section.text)
		}
	}
	c.appendText(strings.Join(texts, "\r\n"))
}

// replyHelp explains the replies.
var replyHelp = []string{
	"SG.ALLOW, SG.ALLOWUPTO, SG.PEEK, SG.CHARGE, SG.REFUND and SG.RENEW return six numbers:",
	"allowed (1 or 0), quota, remaining, retry_after in microseconds (-1: never), reset_after in microseconds, granted.",
	"SG.RESERVE returns the same and the reservation; SG.ACQUIRE also the microseconds within which it must be renewed.",
	"SG.SETTLE, SG.CANCEL and SG.RELEASE return 1 if the reservation had ended before, otherwise 0, and what was refunded for each charge.",
	"An empty policy means the default policy.",
}

func (c *conn) help([][]byte) {
	var lines []string
	for _, cmd := range c.server.sorted {
		if cmd.own {
			lines = append(lines, cmd.description())
		}
	}
	lines = append(lines, replyHelp...)
	c.out = appendArray(c.out, len(lines))
	for _, line := range lines {
		c.out = appendSimple(c.out, '+', line)
	}
}
