package traffic

import "io"

// Merge merges the requests of several readers by time: the next request is always the earliest of the next requests of
// all readers; ties go to the reader given first. Readers are not sorted. An error of one reader ends the merged traffic,
// since the rest would be incomplete.
func Merge(readers ...Lines) Lines {
	if len(readers) == 1 {
		return readers[0]
	}
	return &merged{unread: readers}
}

// merged keeps the next line of each reader in a heap, the earliest on top.
type merged struct {
	unread   []Lines // not read from yet
	heap     []*head
	returned bool // the line at the top was returned, and is valid until the next call
	err      error
}

// head is a reader with its next line.
type head struct {
	line  Line
	index int // among the arguments
	from  Lines
}

func (h *head) before(other *head) bool {
	return h.line.At < other.line.At || h.line.At == other.line.At && h.index < other.index
}

// Next implements Lines.
func (m *merged) Next(line *Line) error {
	if m.err == nil {
		m.err = m.advance()
	}
	if m.err != nil {
		return m.err
	}
	*line = m.heap[0].line
	m.returned = true
	return nil
}

// advance moves the next line to the top.
func (m *merged) advance() error {
	for i, reader := range m.unread {
		h := &head{index: i, from: reader}
		switch err := reader.Next(&h.line); err {
		case nil:
			m.heap = append(m.heap, h)
		case io.EOF:
		default:
			return err
		}
	}
	if m.unread != nil {
		m.unread = nil
		for i := len(m.heap)/2 - 1; i >= 0; i-- {
			m.sink(i)
		}
	}
	if m.returned {
		if err := m.replaceTop(); err != nil {
			return err
		}
	}
	if len(m.heap) == 0 {
		return io.EOF
	}
	return nil
}

// replaceTop reads the next line of the reader at the top.
func (m *merged) replaceTop() error {
	m.returned = false
	top := m.heap[0]
	if err := top.from.Next(&top.line); err == io.EOF {
		last := len(m.heap) - 1
		m.heap[0], m.heap[last] = m.heap[last], nil
		m.heap = m.heap[:last]
	} else if err != nil {
		return err
	}
	m.sink(0)
	return nil
}

// sink moves the head at i down to its position. While one reader remains the earliest, it takes two comparisons.
func (m *merged) sink(i int) {
	for {
		least := 2*i + 1
		if least >= len(m.heap) {
			return
		}
		if right := least + 1; right < len(m.heap) && m.heap[right].before(m.heap[least]) {
			least = right
		}
		if !m.heap[least].before(m.heap[i]) {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}
