package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// manCommand prints the manual page, for packages. It has all commands with all flags.
type manCommand struct{}

// Run prints the page.
func (*manCommand) Run(c *console) error {
	_, err := io.WriteString(c.out, manPage(c.node.Parent))
	return err
}

// manPage returns the manual page of the program whose commands are below root.
func manPage(root *kong.Node) string {
	var page strings.Builder
	fmt.Fprintf(&page, ".TH SLIDEGATE 1 \"\" \"slidegate %s\" \"User Commands\"\n", version())
	page.WriteString(".SH NAME\nslidegate \\- a sliding\\-window rate limiter: service, proxy, and replay of recorded traffic\n")
	page.WriteString(".SH SYNOPSIS\n.B slidegate\n.I command\n[flags]\n.SH COMMANDS\n")
	for _, node := range root.Leaves(true) {
		fmt.Fprintf(&page, ".SS %s\n%s\n", roff("slidegate "+node.Summary()), roff(node.Help))
		for _, argument := range node.Positional {
			if argument.Help != "" {
				fmt.Fprintf(&page, ".TP\n.I %s\n%s\n", roff(argument.Name), roff(argument.Help))
			}
		}
		for _, flag := range node.Flags {
			if !flag.Hidden && flag.Name != "help" {
				fmt.Fprintf(&page, ".TP\n.B %s\n%s\n", roff(flag.String()), roff(flag.Help))
			}
		}
	}
	page.WriteString(".SH ENVIRONMENT\n" + roff("Every flag of slidegate serve and slidegate proxy can be set by a variable: SLIDEGATE_ and the flag's "+
		"name in capitals, with _ for -. A flag takes precedence. SLIDEGATE_TOKEN is the token that the other commands send.") + "\n")
	page.WriteString(".SH EXIT STATUS\n" + roff("0 for success, 1 if a request was refused, 2 for an error, 130 if interrupted.") + "\n")
	page.WriteString(".SH SEE ALSO\nhttps://github.com/slidegate/slidegate\n")
	return page.String()
}

// roffEscapes replaces characters that are special in roff, and those that it would print as others.
var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// roff escapes text for a manual page. No line of it is a request, since none begins with a dot or a quote.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return strings.ReplaceAll(text, "\n.", "\n\\&.")
}
