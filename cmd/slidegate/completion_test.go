package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompletionWords(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"ser", "serve"},
		{"he", "health"},
		{"nosuch ", ""},
		{"proxy --adm", "--admin"},
		{"proxy --log-format ", "text json"},
		{"proxy --log-format j", "json"},
		{"proxy --to http://h --rou", "--route"},
		{"proxy --rewrite-host --web", "--websocket-idle"},
		{"proxy --to serve --envoy-q", ""}, // serve is the value of a flag
		{"config ch", "check"},
		{"config check --fo", "--for"},
		{"config check --for ", "serve proxy replay"},
		{"completion ", "bash zsh fish"},
		{"serve --store ", ""}, // anything may follow
		{"rulings -n ", ""},
	} {
		r := call(t, append([]string{"completion", "words"}, strings.Split(test.line, " ")...)...)
		if got := strings.Join(strings.Fields(r.out), " "); r.status != exitOK || !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%q: got status %d, %q%s, want %q", test.line, r.status, got, r.err, test.want)
		}
	}
	if r := call(t, "completion", "csh"); r.status != exitFailure || !strings.Contains(r.err, `"bash","zsh","fish"`) {
		t.Errorf("unknown shell: got status %d, %s", r.status, r.err)
	}
}

// A real shell sources the script and completes command lines.
func TestCompletionInBash(t *testing.T) {
	bash := need(t, "bash")
	script := write(t, "completion", []byte(mustCall(t, "completion", "bash")))
	linked := filepath.Join(t.TempDir(), "slidegate")
	if text, err := exec.Command("ln", "-s", program, linked).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, test := range []struct{ words, want string }{
		{"slidegate pro", "proxy\n"},
		{"slidegate proxy --headers dra", "draft03\n"},
		{"slidegate proxy --max-connections-", "--max-connections-per-address\n"},
	} {
		command := exec.Command(bash, "-c", `source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _slidegate; printf '%s\n' "${COMPREPLY[@]}"`,
			"bash", script, test.words)
		command.Env = append(command.Environ(), "PATH="+filepath.Dir(linked)+":/usr/bin:/bin")
		if got, err := command.CombinedOutput(); err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.words, got, err, test.want)
		}
	}
}
