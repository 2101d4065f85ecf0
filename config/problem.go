package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// maxProblems is how many problems are reported: enough to mend a file in one go, and few enough to read.
const maxProblems = 10

// position is a place in a file; lines and columns count from 1, columns in characters.
type position struct{ line, column int }

// compare is negative if p comes before other, and positive if it comes after it.
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

func (p *problems) add(at position, err error) { *p = append(*p, problem{at, err}) }

func (p *problems) addf(at position, format string, args ...any) {
	p.add(at, fmt.Errorf(format, args...))
}

// join makes one error of the problems in the order of the file; nil if there are none. What is found wrong in a value
// that aliases repeat is reported once.
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
