package jsonscan

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// node is a node in the tree of requested member names. The root represents the whole line.
type node struct {
	name     string
	index    int  // the name as an array index, or -1
	fold     bool // the name is case-insensitive, like the name of a header
	slot     int  // the slot of the member's raw value, or -1
	children []*node
}

func newTree() *node { return &node{index: -1, slot: -1} }

// childNamed returns the child with the given name, or nil.
func (n *node) childNamed(name []byte) *node {
	for _, child := range n.children {
		if len(child.name) != len(name) {
			continue
		}
		if string(name) == child.name || child.fold && bytes.EqualFold(name, []byte(child.name)) {
			return child
		}
	}
	return nil
}

// childAt returns the child for the i-th element of an array, or nil.
func (n *node) childAt(i int) *node {
	for _, child := range n.children {
		if child.index == i {
			return child
		}
	}
	return nil
}

// clearSlots clears the slots of n and its descendants: the last of duplicate members counts, with everything in it.
func (n *node) clearSlots(found [][]byte) {
	if n.slot >= 0 {
		found[n.slot] = nil
	}
	for _, child := range n.children {
		child.clearSlots(found)
	}
}

// add adds the member at path and returns its slot: next, or the existing slot of path. If fold is set, the last name of
// path is case-insensitive.
func (n *node) add(path []string, fold bool, next int) int {
	for i, name := range path {
		n = n.child(name, fold && i == len(path)-1)
	}
	if n.slot < 0 {
		n.slot = next
	}
	return n.slot
}

// child finds or creates a child. A name requested both exactly and case-insensitively has one child, because a member has
// only one slot.
func (n *node) child(name string, fold bool) *node {
	for _, child := range n.children {
		if child.name == name || (fold || child.fold) && strings.EqualFold(child.name, name) {
			child.fold = child.fold || fold
			return child
		}
	}
	index, err := strconv.Atoi(name)
	if err != nil || strconv.Itoa(index) != name {
		index = -1
	}
	child := &node{name: name, index: index, fold: fold, slot: -1}
	n.children = append(n.children, child)
	return child
}

// SplitPath splits a path such as request.headers.Referer.0 at its dots. A dot after a backslash is part of a name.
func SplitPath(path string) ([]string, error) {
	var names []string
	var name strings.Builder
	for i := 0; i <= len(path); i++ {
		switch {
		case i == len(path) || path[i] == '.':
			if name.Len() == 0 {
				return nil, errors.New("want names separated by dots, such as request.headers.Referer.0")
			}
			names = append(names, name.String())
			name.Reset()
		case path[i] == '\\' && i+1 < len(path):
			i++
			fallthrough
		default:
			name.WriteByte(path[i])
		}
	}
	return names, nil
}
