package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The page has every command and every flag that the help has.
func TestManPageHasAllFlags(t *testing.T) {
	page := mustCall(t, "man")
	_, serve := parseArgs(t, "serve")
	flags := 0
	for _, node := range serve.Parent.Leaves(true) {
		_, section, found := strings.Cut(page, "\n.SS "+roff("slidegate "+node.Path()))
		if !found {
			t.Errorf("the page does not have the command %s", node.Path())
		}
		section, _, _ = strings.Cut(section, "\n.SS ")
		for _, flag := range node.Flags {
			flags++
			if !flag.Hidden && flag.Name != "help" && !strings.Contains(section, roff("--"+flag.Name)) {
				t.Errorf("%s: the page does not have the flag --%s", node.Path(), flag.Name)
			}
		}
	}
	if flags < 100 {
		t.Errorf("got %d flags, want all of the program, more than a hundred", flags)
	}
}

// The formatter of manual pages has nothing to complain about.
func TestManPageIsValid(t *testing.T) {
	groff := need(t, "groff")
	command := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
	command.Stdin = strings.NewReader(mustCall(t, "man"))
	if out, err := command.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

func TestRoffEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"--limit":       `\-\-limit`,
		".hidden\n.two": "\\&.hidden\n\\&.two",
		`a\b 'c'`:       `a\eb \(aqc\(aq`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
