// Command slidegate is a rate limit service for programs in any language, a proxy that puts limits in front of an application that
// cannot be changed, and a tool that shows what limits would have done to recorded traffic.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	_ "time/tzdata" // so that limits with a time zone work in containers without zone data
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// Exit statuses.
const (
	exitOK          = 0
	exitRefused     = 1 // a request was refused, a reload needs a restart, or a service is not ready: neither a success nor a failure
	exitFailure     = 2 // an invalid flag, a file that cannot be read, or any other error
	exitInterrupted = 130
)

// console holds the streams that a command reads from and writes to.
type console struct {
	in       io.Reader
	out      io.Writer
	err      io.Writer
	command  string     // the command line, for reports
	terminal bool       // err is a terminal
	original bool       // the program takes the place of envoyproxy/ratelimit
	node     *kong.Node // the selected command with its flags; nil until the command line is parsed
}

// commands are all commands with their flags.
type commands struct {
	Serve serveCommand `cmd:"" help:"Run the service: JSON over HTTP, forward-auth, Envoy's rate limit service, and RESP."`
	Proxy proxyCommand `cmd:"" help:"Put limits in front of an application that cannot be changed."`
	//lint:ignore SA5008 kong takes several
	Allow decideCommand `cmd:"" set:"key=to charge" set:"cost=to charge" help:"Decide a request and charge it, with a running service."`
	//lint:ignore SA5008 kong takes several
	Peek decideCommand `cmd:"" set:"key=to look up" set:"cost=the request would cost" help:"Show what allow would decide, and charge nothing."`
	//lint:ignore SA5008 kong takes several
	Charge   decideCommand    `cmd:"" set:"key=to charge" set:"cost=used" help:"Charge units that have already been used, even beyond the quota."`
	Explain  explainCommand   `cmd:"" help:"Show what decides the requests of a key, and the state of each of its limits."`
	Reset    resetCommand     `cmd:"" help:"Clear the counts of a key."`
	Block    blockCommand     `cmd:"" help:"Refuse a key until a given time, regardless of its quota."`
	Unblock  unblockCommand   `cmd:"" help:"End the block of a key."`
	Override overrideCommand  `cmd:"" help:"Give a key other limits, or none, until a given time."`
	Rulings  rulingsCommand   `cmd:"" help:"List the rulings in force: keys that are blocked or have other limits, and who made each ruling."`
	Health   healthCommand    `cmd:"" help:"Ask a running service whether it is ready, for health checks of containers: the exit status is 0 or 1."`
	Reload   reloadCommand    `cmd:"" help:"Make a running service reload its files, and show what changed."`
	Config   configCommand    `cmd:"" help:"Check, print and describe policy files."`
	State    stateCommand     `cmd:"" help:"Show what the folder of --state has."`
	Replay   replayCommand    `cmd:"" help:"Show what limits would have done to recorded traffic."`
	Migrate  migrateCommand   `cmd:"" name:"migrations" help:"Print the schema of the PostgreSQL store, as input for psql."`
	Complete completeCommand  `cmd:"" name:"completion" help:"Print a shell completion script."`
	Man      manCommand       `cmd:"" hidden:"" help:"Print the manual page."`
	About    versionCommand   `cmd:"" name:"version" help:"Print the version, the commit and the version of Go."`
	Help     helpCommand      `cmd:"" help:"Show the commands, or the flags of a command."`
	Version  kong.VersionFlag `help:"Print the version and exit."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program immediately
	c := &console{in: os.Stdin, out: os.Stdout, err: os.Stderr, command: commandLine(os.Args), terminal: isTerminal(os.Stderr)}
	c.original = filepath.Base(os.Args[0]) == originalName
	os.Exit(run(ctx, c, os.Args[1:]))
}

// run executes a command line and returns the exit status.
func run(ctx context.Context, c *console, args []string) (status int) {
	for i, arg := range args {
		if !utf8.ValidString(arg) { // kong passes arguments through JSON, which would change it
			return c.finish(fmt.Errorf(`argument %d is not UTF-8; write a key with other bytes in quotes, as in '"J\xf6rg"'`, i+1))
		}
	}
	root := &commands{}
	if c.original {
		var err error
		if args, err = root.Serve.takePlace(args); err != nil {
			return c.finish(err)
		}
	}
	args, all := withHelp(args)
	exited := -1
	parser, err := kong.New(root,
		kong.Name("slidegate"),
		kong.Description("A sliding-window rate limiter: one exact decision rule on every store."),
		kong.Vars(helpVars()),
		kong.Writers(c.out, c.err),
		kong.Exit(func(code int) { exited = code }), // --help and --version
		kong.Help(printHelp(all)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(c),
		readEnvironment(),
		readValues(),
	)
	if err != nil {
		panic(err) // an invalid declaration of flags
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err == nil {
		c.node = parsed.Selected()
		splitLines(c.node)
		err = parsed.Run()
	}
	return c.finish(err)
}

// finish prints err, unless it has been reported or needs no message, and returns the exit status.
func (c *console) finish(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errRefused):
		return exitRefused
	case errors.As(err, new(loggedError)):
		return exitFailure
	}
	for _, one := range splitErrors(err) {
		name := "slidegate: "
		if _, inFile := one.(*yamlfile.Error); inFile {
			name = "" // editors parse file:line:column at the start of a line
		}
		for line := range strings.SplitSeq(c.message(one), "\n") {
			fmt.Fprintf(c.err, "%s%s\n", name, line)
		}
	}
	var usage *kong.ParseError
	if errors.As(err, &usage) {
		fmt.Fprintln(c.err, usageHint(usage))
	}
	return exitFailure
}

// usageHint returns the command that prints the help.
func usageHint(err *kong.ParseError) string {
	command := "slidegate"
	if err.Context != nil {
		if node := err.Context.Selected(); node != nil {
			command = "slidegate " + node.Path()
		}
	}
	return fmt.Sprintf("Try: %s --help", command)
}

func helpVars() kong.Vars {
	return kong.Vars{"version": longVersion(), "server": adminURL, "listener": "the service's admin listener", "formats": formatsHelp()}
}

// commandLine quotes arguments for a shell.
func commandLine(args []string) string {
	words := []string{"slidegate"}
	for _, arg := range args[1:] {
		if arg == "" || strings.ContainsFunc(arg, needsQuotes) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

func needsQuotes(r rune) bool {
	plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,%+@", r)
	return !plain
}
