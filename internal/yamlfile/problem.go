package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// MaxProblems is how many problems of a file are reported: enough to fix it in one go, and few enough to read.
const MaxProblems = 10

// Position is a position in a file; lines and columns count from 1, columns in characters.
type Position struct{ Line, Column int }

// top is the start of a file.
var top = Position{1, 1}

// Compare is negative if p comes before other, and positive if it comes after it.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Line, other.Line), cmp.Compare(p.Column, other.Column))
}

// PositionOf returns where a value or a document begins; a document begins at its "---" if it has one.
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

// Error is a problem of a file and its position. It does not change after it is returned, and is safe for concurrent use.
type Error struct {
	File string
	At   Position // the zero value means all of the file
	Err  error
}

// Error returns the position, in the form that editors understand, and the problem: file:line:column: text.
func (e *Error) Error() string {
	if e.At == (Position{}) {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d:%d: %v", e.File, e.At.Line, e.At.Column, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Problems are the problems of a file, in the order in which they were found. The zero value is empty and ready to use.
type Problems []problem

type problem struct {
	at  Position
	err error
}

// Add adds a problem at a position.
func (p *Problems) Add(at Position, err error) { *p = append(*p, problem{at, err}) }

// Addf adds a problem, formatted by fmt.Errorf.
func (p *Problems) Addf(at Position, format string, args ...any) {
	p.Add(at, fmt.Errorf(format, args...))
}

// Errors returns the problems, each an Error, in the order of the file. A problem in a value that aliases repeat is returned once.
func (p Problems) Errors(file string) (all []error) {
	slices.SortStableFunc(p, func(a, b problem) int { return a.at.Compare(b.at) })
	for _, problem := range slices.CompactFunc(p, func(a, b problem) bool { return a.at == b.at && a.err.Error() == b.err.Error() }) {
		all = append(all, &Error{File: file, At: problem.at, Err: problem.err})
	}
	return all
}

// Join returns one error for the first MaxProblems of Errors; nil if there are none.
func (p Problems) Join(file string) error {
	all := p.Errors(file)
	if more := len(all) - MaxProblems; more > 0 {
		all = append(all[:MaxProblems], &Error{File: file, Err: fmt.Errorf("and %d more problems", more)})
	}
	return errors.Join(all...)
}
