package traffic

import (
	"container/heap"
	"io"
	"slices"
)

// Merge merges the requests of several readers by time: the next request is always the earliest of the next requests of
// all readers; ties go to the reader given first. Readers are not sorted. An error of one reader ends the merged traffic,
// since the rest would be incomplete.
func Merge(readers ...Lines) Lines {
	if len(readers) == 1 {
		return readers[0]
	}
	m := &merged{}
	for i, reader := range readers {
		m.heads = append(m.heads, &head{index: i, from: reader})
	}
	return m
}

// merged keeps the readers in a heap, the one with the earliest line on top.
type merged struct {
	heads heads
	begun bool
	err   error
}

// head is a reader with its next line.
type head struct {
	line  Line
	index int // among the arguments
	from  Lines
}

// Next implements Lines. A line is valid until its reader reads the next one, so that happens here and not before.
func (m *merged) Next(line *Line) error {
	switch {
	case m.err != nil:
	case !m.begun:
		m.begun = true
		m.heads = slices.DeleteFunc(m.heads, func(h *head) bool { return !m.read(h) })
		heap.Init(&m.heads)
	case m.read(m.heads[0]):
		heap.Fix(&m.heads, 0)
	default:
		heap.Pop(&m.heads)
	}
	if m.err == nil && len(m.heads) == 0 {
		m.err = io.EOF
	}
	if m.err == nil {
		*line = m.heads[0].line
	}
	return m.err
}

// read reads the next line of a reader, and reports whether it has one.
func (m *merged) read(h *head) bool {
	err := h.from.Next(&h.line)
	if err != nil && err != io.EOF && m.err == nil {
		m.err = err
	}
	return err == nil
}

// heads implements heap.Interface.
type heads []*head

func (h heads) Len() int      { return len(h) }
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h heads) Less(i, j int) bool {
	a, b := &h[i].line, &h[j].line
	return a.At < b.At || a.At == b.At && h[i].index < h[j].index
}
func (h *heads) Push(any)     {} // readers are not added
func (h *heads) Pop() (x any) { *h = (*h)[:len(*h)-1]; return nil }
