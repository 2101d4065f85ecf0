package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// slidegate is the real binary, built once.
var slidegate string

func TestMain(m *testing.M) { testkit.MainWithProgram(m, filepath.Join("..", "..", ".."), &slidegate) }

// TestCommands checks every command line of the pages: the shell can parse it, the program knows its commands and flags, and make
// its targets. Commands in console blocks are also run, by TestConsoles.
func TestCommands(t *testing.T) {
	problems, count := checkCommands(t, readPages(t))
	report(t, problems)
	t.Logf("%d commands", count)
}

func checkCommands(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	targets := makeTargets(t)
	for _, p := range pages {
		for _, line := range commandsOf(p) {
			calls, err := callsIn(line.code)
			if err != nil {
				problems = append(problems, p.problemf(line.line, "the shell cannot parse %s: %v", line.code, err))
			}
			for _, args := range calls {
				count++
				if wrong := checkCall(targets, args); wrong != "" {
					problems = append(problems, p.problemf(line.line, "%s: %s", strings.Join(args, " "), wrong))
				}
			}
		}
	}
	return problems, count
}

// commandsOf returns the commands of a page, in its blocks and between backticks.
func commandsOf(p *page) (lines []span) {
	for _, b := range p.blocks {
		lines = append(lines, commandLines(b)...)
	}
	for _, s := range p.spans {
		if ours.MatchString(s.code+" ") && !isHistory(p) {
			lines = append(lines, s)
		}
	}
	return lines
}

// ours matches the programs whose lines count as commands even in an indented block, which has no language.
var ours = regexp.MustCompile(`^([A-Z_]+=\S+ )*(slidegate|make|curl|go (run|test|build|get|install)) `)

// commandLines returns the commands of a block: the lines after "$ " if it has any; otherwise all lines of a sh block, and the
// lines of known programs in an indented block. A line that ends in a backslash continues on the next.
func commandLines(b block) (lines []span) {
	if b.language != "sh" && b.language != "console" && !b.indented {
		return nil
	}
	prompts := b.language == "console" || b.indented && strings.Contains("\n"+b.code, "\n$ ")
	number, goesOn := b.line, false
	for line := range strings.Lines(b.code) {
		command, prompt := strings.CutPrefix(strings.TrimRight(line, "\n"), "$ ")
		switch {
		case goesOn:
			lines[len(lines)-1].code += "\n" + command
		case prompt || !prompts && (b.language == "sh" || ours.MatchString(command+" ")):
			lines = append(lines, span{number, command})
			prompt = true
		}
		goesOn = (prompt || goesOn) && strings.HasSuffix(command, `\`)
		number++
	}
	return lines
}

// callsIn returns the words of each command in a line, including those in loops and pipes. Variables are not expanded.
func callsIn(line string) (calls [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok {
			return true
		}
		var words []string
		for _, set := range call.Assigns {
			words = append(words, set.Name.Value+"=")
		}
		for _, word := range call.Args {
			words = append(words, textOfWord(word))
		}
		calls = append(calls, words)
		return true
	})
	return calls, nil
}

func textOfWord(word *syntax.Word) string {
	var text strings.Builder
	syntax.Walk(word, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Lit:
			text.WriteString(n.Value)
		case *syntax.SglQuoted:
			text.WriteString(n.Value)
		case *syntax.ParamExp, *syntax.CmdSubst:
			text.WriteString("x")
			return false
		}
		return true
	})
	return text.String()
}

// checkCall returns the problem with a command, or "".
func checkCall(targets []string, args []string) string {
	for len(args) > 0 && strings.HasSuffix(args[0], "=") {
		if name := strings.TrimSuffix(args[0], "="); strings.HasPrefix(name, "SLIDEGATE_") && !slices.Contains(variables(), name) {
			return name + " sets nothing"
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return ""
	}
	switch rest := args[1:]; args[0] {
	case "slidegate":
		return checkSlidegate(rest)
	case "make":
		for _, arg := range rest {
			if !strings.Contains(arg, "=") && !strings.HasPrefix(arg, "-") && !slices.Contains(targets, arg) {
				return "no such target"
			}
		}
	case "go":
		return checkGoCommand(rest)
	}
	return ""
}

// checked caches the results of checkSlidegate, since pages have many command lines in common.
var checked = map[string]string{}

// checkSlidegate returns the error that the real program reports for a command line, or "".
func checkSlidegate(args []string) string {
	line := strings.Join(args, "\x00")
	wrong, known := checked[line]
	if !known {
		wrong = parseBySlidegate(args)
		checked[line] = wrong
	}
	return wrong
}

// parseBySlidegate makes the program parse a command line. With --help it does nothing else, apart from printing help.
func parseBySlidegate(args []string) string {
	out, err := exec.Command(slidegate, append(slices.Clone(args), "--help")...).CombinedOutput()
	if err == nil || bytes.Contains(out, []byte(`but got "--help"`)) { // a page may mention a flag without its value
		return ""
	}
	message, _, _ := strings.Cut(strings.TrimPrefix(string(out), "slidegate: "), "\n")
	return message
}

// checkGoCommand checks that the packages of this project that a go command names exist.
func checkGoCommand(args []string) string {
	for i, arg := range args {
		if i > 0 && args[0] == "run" && arg == "./cmd/slidegate" {
			return checkSlidegate(args[i+1:])
		}
		folder, version, _ := strings.Cut(arg, "@")
		folder, found := strings.CutPrefix(folder, "github.com/slidegate/slidegate")
		if local, ok := strings.CutPrefix(arg, "./"); ok && version == "" {
			folder, found = strings.TrimSuffix(local, "..."), true
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder))); found && err != nil {
			return "no such package: " + arg
		}
	}
	return ""
}

func makeTargets(t *testing.T) (targets []string) {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, match[1])
	}
	return targets
}
