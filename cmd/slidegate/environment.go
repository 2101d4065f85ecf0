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

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// environmentPrefix is the prefix of the program's environment variables.
const environmentPrefix = "SLIDEGATE_"

// environmentCommands lists the commands whose flags can be set by environment variables: those that run in containers and as services.
// In a command that a person types, a variable that was set somewhere else would be a surprise.
var environmentCommands = []string{"serve", "proxy"}

// variableName returns the variable that sets a flag: SLIDEGATE_TLS_CERT is --tls-cert.
func variableName(flag string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readEnvironment lets environment variables set all flags of the commands that run a server. A flag takes precedence over its
// variable. The variable of a flag that can be repeated has one value per line, which splitLines splits, unless the flag takes a list.
func readEnvironment() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, node := range k.Model.Children {
			if !slices.Contains(environmentCommands, node.Name) {
				continue
			}
			for _, flag := range node.Flags {
				if flag.Name == "help" || flag.Name == "version" || len(flag.Envs) > 0 {
					continue
				}
				name := variableName(flag.Name)
				if value, set := os.LookupEnv(name); set && value == "" {
					_ = os.Unsetenv(name) // docker compose passes an unset variable as empty; that must not disable a listener
				}
				flag.Envs, flag.Tag.Envs = []string{name}, []string{name}
			}
		}
		return nil
	})
}

// variableNote returns a note for the error of a flag that a variable has set, not the command line.
func variableNote(flag string) string {
	if name := variableName(flag); os.Getenv(name) != "" {
		return " (or the environment variable " + name + ")"
	}
	return ""
}

// splitLines splits the variables that set several values of a flag. The parser could split them too, but would show the newline in
// the help.
func splitLines(node *kong.Node) {
	for _, flag := range node.Flags {
		values, ok := flag.Target.Interface().([]string)
		if !ok || flag.Tag.Sep != -1 {
			continue
		}
		var lines []string
		for _, value := range values {
			if !strings.Contains(value, "\n") { // given by a flag, even if empty
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

// otherVariables are the variables that do not belong to a flag.
var otherVariables = []string{"SLIDEGATE_TOKENS", "SLIDEGATE_ADMIN_TOKENS", "SLIDEGATE_TOKEN"}

// kubernetesVariable matches the variables that Kubernetes sets for services whose name is slidegate or starts with slidegate-.
var kubernetesVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// warnUnknownVariables logs a warning for each variable that has the program's prefix but sets nothing: a limit that an operator has set
// must not be ignored silently. Variables that the policy files refer to are known.
func (c *console) warnUnknownVariables(log *slog.Logger, environment, paths []string) {
	if c.node == nil {
		return
	}
	known := slices.Clone(otherVariables)
	for _, flag := range c.node.Flags {
		known = append(known, flag.Envs...)
	}
	var words []string // without the common prefix, which would make them all similar
	for _, name := range known {
		words = append(words, strings.TrimPrefix(name, environmentPrefix))
	}
	var texts strings.Builder
	files, _ := yamlfile.Files(paths...) // errors were reported when the files were loaded
	for _, path := range files {
		text, _ := yamlfile.Read(path)
		texts.Write(text)
	}
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, environmentPrefix) || slices.Contains(known, name) || kubernetesVariable.MatchString(name) ||
			strings.Contains(texts.String(), "${"+name+"}") {
			continue
		}
		hint := fmt.Sprintf("slidegate help %s all lists all variables", c.node.Name)
		if near, ok := errtext.Nearest(strings.TrimPrefix(name, environmentPrefix), words); ok {
			hint = fmt.Sprintf("did you mean %s%s?", environmentPrefix, near)
		}
		log.Warn("unknown environment variable", slog.String("variable", name), slog.String("hint", hint))
	}
}
