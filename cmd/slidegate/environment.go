package main

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/config/errtext"
)

// environmentPrefix is what the names of the program's variables begin with.
const environmentPrefix = "SLIDEGATE_"

// fromEnvironment lists the commands whose flags can be set by variables: those that containers and services run. For one that a
// person types, a variable from somewhere else would be a surprise.
var fromEnvironment = []string{"serve", "proxy"}

// variableOf returns the variable that sets a flag: SLIDEGATE_TLS_CERT is --tls-cert.
func variableOf(flag string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readEnvironment has variables set all flags of the commands that run a server. A flag that is given goes before its variable. A
// flag that can be repeated has one value a line in its variable, which splitLines takes apart, unless it takes a list.
func readEnvironment() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, node := range k.Model.Children {
			if !slices.Contains(fromEnvironment, node.Name) {
				continue
			}
			for _, flag := range node.Flags {
				if flag.Name == "help" || flag.Name == "version" || len(flag.Envs) > 0 {
					continue
				}
				name := variableOf(flag.Name)
				if value, set := os.LookupEnv(name); set && value == "" {
					_ = os.Unsetenv(name) // as a file of docker compose has it that leaves it out: it must not shut a door
				}
				flag.Envs, flag.Tag.Envs = []string{name}, []string{name}
			}
		}
		return nil
	})
}

// byVariable returns a note for the error of a flag that a variable sets, and not the person who reads it.
func byVariable(flag string) string {
	if name := variableOf(flag); os.Getenv(name) != "" {
		return " (or the variable " + name + ")"
	}
	return ""
}

// splitLines takes apart the variables that set several values of a flag. The parser could do so too, but would show the end of a
// line in the help.
func splitLines(node *kong.Node) {
	for _, flag := range node.Flags {
		values, ok := flag.Target.Interface().([]string)
		if !ok || flag.Tag.Sep != -1 {
			continue
		}
		var lines []string
		for _, value := range values {
			if !strings.Contains(value, "\n") { // what is given by a flag, also if it is empty
				lines = append(lines, value)
				continue
			}
			for line := range strings.Lines(value) {
				if line = strings.TrimSpace(line); line != "" {
					lines = append(lines, line)
				}
			}
		}
		if len(values) > 0 {
			flag.Target.Set(reflect.ValueOf(lines))
		}
	}
}

// otherVariables are those that the program reads by itself.
var otherVariables = []string{"SLIDEGATE_TOKENS", "SLIDEGATE_TOKEN"}

// ofKubernetes matches what Kubernetes sets for a service that is called slidegate, or whose name begins so.
var ofKubernetes = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// warnOfVariables warns of variables that begin like the program's own and set nothing: a limit that somebody wrote must not be
// absent without a word. Those that the files name are theirs.
func (c *console) warnOfVariables(log *slog.Logger, environment, paths []string) {
	if c.node == nil {
		return
	}
	known := slices.Clone(otherVariables)
	for _, flag := range c.node.Flags {
		known = append(known, flag.Envs...)
	}
	var words []string // without what all have in common, which would make them all near one another
	for _, name := range known {
		words = append(words, strings.TrimPrefix(name, environmentPrefix))
	}
	sources, _ := config.ReadSources(paths...) // they were read before
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, environmentPrefix) || slices.Contains(known, name) || ofKubernetes.MatchString(name) ||
			slices.ContainsFunc(sources, func(s config.Source) bool { return strings.Contains(string(s.Text), "${"+name+"}") }) {
			continue
		}
		hint := fmt.Sprintf("slidegate %s --help lists those that there are", c.node.Name)
		if near, ok := errtext.Nearest(strings.TrimPrefix(name, environmentPrefix), words); ok {
			hint = fmt.Sprintf("did you mean %s%s?", environmentPrefix, near)
		}
		log.Warn("a variable of the environment sets nothing", slog.String("variable", name), slog.String("hint", hint))
	}
}
