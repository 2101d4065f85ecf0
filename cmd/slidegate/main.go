// Command slidegate is Slidegate for everyone: a service that programs in any language ask, a proxy in front of one that
// cannot be changed, and a way to see what limits would have done to recorded traffic.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/slidegate/slidegate/config/yamlfile"
)

// Exit statuses.
const (
	exitOK          = 0
	exitRefused     = 1 // a request was refused, which is no failure, and no success either
	exitFailure     = 2 // a wrong flag, a file that cannot be read, anything else that went wrong
	exitInterrupted = 130
)

// console is what a command reads from and writes to.
type console struct {
	in       io.Reader
	out      io.Writer
	err      io.Writer
	command  string     // how this was called, for reports
	terminal bool       // err is a terminal that a person looks at
	screen   bool       // out is one
	node     *kong.Node // the command that runs, with its flags; nil before it is known
}

// commands are all commands with their flags.
type commands struct {
	Serve    serveCommand     `cmd:"" help:"Run the service: JSON over HTTP, forward-auth, Envoy's rate limit service, and RESP."`
	Proxy    proxyCommand     `cmd:"" help:"Put limits in front of an application that cannot be changed."`
	Allow    allowCommand     `cmd:"" help:"Take units, from a running service or from a store."`
	Peek     peekCommand      `cmd:"" help:"See what Allow would answer, and take nothing."`
	Charge   chargeCommand    `cmd:"" help:"Charge units that have been used, beyond the quota if need be."`
	Explain  explainCommand   `cmd:"" help:"Show what decides about a key, and what each of its limits says."`
	Reset    resetCommand     `cmd:"" help:"Forget what a key has used."`
	Top      topCommand       `cmd:"" help:"Show the keys that a running service refused the most."`
	Block    blockCommand     `cmd:"" help:"Refuse a key until a time, whatever it has left."`
	Unblock  unblockCommand   `cmd:"" help:"End the block of a key."`
	Override overrideCommand  `cmd:"" help:"Give a key other limits, or none, until a time."`
	Rulings  rulingsCommand   `cmd:"" help:"Show which keys are blocked or have other limits, and who decided it."`
	Reload   reloadCommand    `cmd:"" help:"Have a running service read its files again, and say what changed."`
	Config   configCommand    `cmd:"" help:"Check, print and describe files of policies."`
	Replay   replayCommand    `cmd:"" help:"Show what a limit would have done to recorded traffic."`
	Generate generateCommand  `cmd:"" help:"Make up traffic, as a log to replay."`
	Migrate  migrateCommand   `cmd:"" name:"migrations" help:"Write the migrations of the PostgreSQL store, for psql, goose or golang-migrate."`
	Complete completeCommand  `cmd:"" name:"completion" help:"Print a script by which a shell completes command lines."`
	About    versionCommand   `cmd:"" name:"version" help:"Print the version, the commit and the version of Go."`
	Help     helpCommand      `cmd:"" help:"Show the commands, or the flags of one."`
	Version  kong.VersionFlag `help:"Print the version and exit."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	c := &console{in: os.Stdin, out: os.Stdout, err: os.Stderr, command: commandLine(os.Args), terminal: isTerminal(os.Stderr), screen: isTerminal(os.Stdout)}
	os.Exit(run(ctx, c, os.Args[1:]))
}

// run carries out a command line and returns the exit status.
func run(ctx context.Context, c *console, args []string) (status int) {
	exited := -1
	parser, err := kong.New(&commands{},
		kong.Name("slidegate"),
		kong.Description("A sliding-window rate limiter: one exact decision rule on every store."),
		kong.Vars(helpVars()),
		kong.Writers(c.out, c.err),
		kong.Exit(func(code int) { exited = code }), // --help and --version
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(c),
		readEnvironment(),
	)
	if err != nil {
		panic(err) // the flags of the program itself are wrong
	}
	parsed, err := parser.Parse(withHelp(args))
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

// finish tells a person about err, if there is something to tell, and returns the exit status.
func (c *console) finish(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errRefused):
		return exitRefused
	case errors.As(err, new(toldError)):
		return exitFailure
	}
	for _, one := range separate(err) {
		name := "slidegate: "
		if _, inFile := one.(*yamlfile.Error); inFile {
			name = "" // so that editors find the place
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

// usageHint says where help is found.
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
	return kong.Vars{"version": longVersion(), "formats": formatsHelp(), "shapes": shapesHelp(), "shapeNames": shapeNames()}
}

// commandLine writes arguments as a shell would read them.
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
