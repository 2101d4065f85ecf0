package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completeCommand prints a script for the completion of command lines. The script calls the program itself, with "words" in place of
// a shell, so its flags are always those of the program.
type completeCommand struct {
	Shell string   `arg:"" enum:"bash,zsh,fish,words" help:"bash, zsh or fish."`
	Words []string `arg:"" optional:"" passthrough:"" hidden:"" help:"The words of a command line after the program; the last is the one to complete."`
}

// completionScripts are the scripts by shell. If there are no suggestions, the shells complete file names.
var completionScripts = map[string]string{
	"bash": `# Put this into ~/.bashrc: source <(slidegate completion bash)
_slidegate() {
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$(slidegate completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _slidegate slidegate
`,
	"zsh": `#compdef slidegate
# Put this into ~/.zshrc, after compinit: source <(slidegate completion zsh)
_slidegate() {
	local -a found
	found=(${(f)"$(slidegate completion words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
	if (( $#found )); then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = _slidegate ]; then _slidegate "$@"; else compdef _slidegate slidegate; fi # a file in $fpath is this function
`,
	"fish": `# Put this into ~/.config/fish/completions/slidegate.fish
complete -c slidegate -a '(slidegate completion words (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
}

// Run prints the script, or the suggestions.
func (s *completeCommand) Run(c *console) error {
	text := completionScripts[s.Shell]
	if s.Shell == "words" {
		for _, word := range suggestions(c.node.Parent, s.Words) {
			text += word + "\n"
		}
	}
	_, err := io.WriteString(c.out, text)
	return err
}

// suggestions returns the completions of the last word, in the order of the help.
func suggestions(root *kong.Node, words []string) (matches []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last, before := words[len(words)-1], words[:len(words)-1]
	node := root
	var value *kong.Value // the flag that the last word is a value of; nil if none
	for _, word := range before {
		if value != nil { // word is its value
			value = nil
			continue
		}
		if flag := flagNamed(node, word); flag != nil && !flag.IsBool() {
			value = flag.Value
		} else if child := childNamed(node, word); child != nil {
			node = child
		} else if len(node.Children) > 0 && !strings.HasPrefix(word, "-") {
			return nil // unknown command
		}
	}
	for _, word := range wordsAt(node, value, strings.HasPrefix(last, "-")) {
		if strings.HasPrefix(word, last) {
			matches = append(matches, word)
		}
	}
	return matches
}

// wordsAt returns all words that may follow: the values of a flag, the flags of a command, or its subcommands and arguments.
func wordsAt(node *kong.Node, value *kong.Value, flags bool) (words []string) {
	switch {
	case value != nil:
		return allowedValues(value)
	case flags:
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				words = append(words, "--"+flag.Name)
			}
		}
		return words
	}
	for _, child := range node.Children {
		if !child.Hidden {
			words = append(words, child.Name)
		}
	}
	for _, argument := range node.Positional {
		words = append(words, allowedValues(argument)...)
	}
	return words
}

// allowedValues returns the values that a flag or an argument accepts; nil if they cannot be listed.
func allowedValues(value *kong.Value) []string {
	if value.Enum == "" {
		return nil
	}
	return slices.DeleteFunc(value.EnumSlice(), func(word string) bool { return word == "" || word == "words" })
}

func childNamed(node *kong.Node, name string) *kong.Node {
	at := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == name })
	if at < 0 {
		return nil
	}
	return node.Children[at]
}

// flagNamed returns the flag of a node that a word names, such as --limit or -n.
func flagNamed(node *kong.Node, word string) *kong.Flag {
	for _, flag := range node.Flags {
		if word == "--"+flag.Name || flag.Short != 0 && word == fmt.Sprintf("-%c", flag.Short) {
			return flag
		}
	}
	return nil
}
