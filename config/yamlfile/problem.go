package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// MaxProblems is how many problems of a file are reported: enough to mend it in one go, and few enough to read.
const MaxProblems = 10

// Position is a place in a file; lines and columns count from 1, columns in characters.
type Position struct{ Line, Column int }

// top is where a file begins.
var top = Position{1, 1}

// compare is negative if p comes before other, and positive if it comes after it.
func (p Position) compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Line, other.Line), cmp.Compare(p.Column, other.Column))
}

// PositionOf returns where a value begins, or a document: at its "---" if it has one.
func PositionOf(node ast.Node) Position {
	switch n := node.(type) {
	case nil:
		return top
	case *ast.DocumentNode:
		if n.Start == nil {
			return PositionOf(n.Body)
		}
		return positionAt(n.Start)
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return PositionOf(n.Values[0])
		}
	case *ast.MappingValueNode:
		return PositionOf(n.Key)
	}
	return positionAt(node.GetToken())
}

func positionAt(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return top
	}
	return Position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// Error is a problem of a file and where it is. It is not changed after it is returned, and safe for concurrent use.
type Error struct {
	File string
	At   Position // the zero value means all of the file
	Err  error
}

// Error returns the place, as editors read it, and what is wrong: file:line:column: text.
func (e *Error) Error() string {
	if e.At == (Position{}) {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d:%d: %v", e.File, e.At.Line, e.At.Column, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Problems are what is wrong in a file, in the order in which it was found. The zero value has none.
type Problems []problem

type problem struct {
	at  Position
	err error
}

// Add reports a problem at a place.
func (p *Problems) Add(at Position, err error) { *p = append(*p, problem{at, err}) }

// Addf reports a problem that fmt.Errorf makes.
func (p *Problems) Addf(at Position, format string, args ...any) {
	p.Add(at, fmt.Errorf(format, args...))
}

// Join makes one error of the problems, each an Error, in the order of the file; nil if there are none. What is wrong in a value that
// aliases repeat is reported once.
func (p Problems) Join(file string) error {
	slices.SortStableFunc(p, func(a, b problem) int { return a.at.compare(b.at) })
	p = slices.CompactFunc(p, func(a, b problem) bool { return a.at == b.at && a.err.Error() == b.err.Error() })
	var all []error
	for i, problem := range p {
		if i == MaxProblems {
			all = append(all, &Error{File: file, Err: fmt.Errorf("and %d more problems", len(p)-MaxProblems)})
			break
		}
		all = append(all, &Error{File: file, At: problem.at, Err: problem.err})
	}
	return errors.Join(all...)
}
