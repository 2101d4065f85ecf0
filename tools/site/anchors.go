package main

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// anchors gives headings the anchors that GitHub gives them, so that links work in both places.
type anchors map[string]bool

// Generate returns the anchor of a heading. If several headings have the same text, all but the first get a number.
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(heading)))
	unique := anchor
	for i := 1; a[unique]; i++ {
		unique = anchor + "-" + strconv.Itoa(i)
	}
	a[unique] = true
	return []byte(unique)
}

// Put records an anchor that a heading sets itself.
func (a anchors) Put(anchor []byte) { a[string(anchor)] = true }
