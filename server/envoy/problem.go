package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/slidegate/slidegate/config"
)

// maxProblems is how many problems of a file are reported: enough to mend it in one go, and few enough to read.
const maxProblems = 10

// position is a place in a file; lines and columns count from 1.
type position struct{ line, column int }

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.line, other.line), cmp.Compare(p.column, other.column))
}

// problem is something wrong in a file.
type problem struct {
	at  position
	err error
}

// problems are what is wrong in a file, in the order in which it was found.
type problems []problem

func (p *problems) addf(at position, format string, args ...any) {
	*p = append(*p, problem{at, fmt.Errorf(format, args...)})
}

// join makes one error of the problems in the order of the file; nil if there are none. What is wrong in a value that
// aliases repeat is reported once.
func (p problems) join(file string) error {
	slices.SortStableFunc(p, func(a, b problem) int { return a.at.compare(b.at) })
	p = slices.CompactFunc(p, func(a, b problem) bool { return a.at == b.at && a.err.Error() == b.err.Error() })
	var all []error
	for i, problem := range p {
		if i == maxProblems {
			all = append(all, fmt.Errorf("%s: and %d more problems", file, len(p)-maxProblems))
			break
		}
		all = append(all, fmt.Errorf("%s:%d:%d: %w", file, problem.at.line, problem.at.column, problem.err))
	}
	return errors.Join(all...)
}

// unknown says that a word is not what it should be, which was probably meant, and which there are.
func unknown(word, what string, among []string) string {
	hint := ""
	if near, ok := config.Nearest(word, among); ok {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Sprintf("%s is not %s%s (there are %s)", quote(word), what, hint, strings.Join(among, ", "))
}

// quote quotes what somebody wrote, and cuts it short if there is no end to it.
func quote(text string) string {
	const most = 60
	if len(text) <= most {
		return strconv.Quote(text)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strconv.Quote(text[:cut]) + "..."
}
