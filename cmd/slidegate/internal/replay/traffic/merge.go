package traffic

import "io"

// Merge returns the requests of several readers as one, by time: always the earliest of those that come next in each, and
// of equally early ones that of the reader named first. A reader that is not sorted is taken as it is. An error of one
// ends it all: what would follow is not the whole traffic.
func Merge(readers ...Lines) Lines {
	if len(readers) == 1 {
		return readers[0]
	}
	return &merged{waiting: readers}
}

// merged keeps the next line of each reader in a heap, the earliest on top.
type merged struct {
	waiting []Lines // not yet begun
	heap    []*head
	given   bool // the top's line was given out, and is valid until the next call
	err     error
}

// head is a reader and its next line.
type head struct {
	line  Line
	place int // among the arguments
	from  Lines
}

func (h *head) before(other *head) bool {
	return h.line.At < other.line.At || h.line.At == other.line.At && h.place < other.place
}

// Next gives out the earliest line.
func (m *merged) Next(line *Line) error {
	if m.err == nil {
		m.err = m.advance()
	}
	if m.err != nil {
		return m.err
	}
	*line = m.heap[0].line
	m.given = true
	return nil
}

// advance brings the next line to the top.
func (m *merged) advance() error {
	for i, reader := range m.waiting {
		h := &head{place: i, from: reader}
		switch err := reader.Next(&h.line); err {
		case nil:
			m.heap = append(m.heap, h)
		case io.EOF:
		default:
			return err
		}
	}
	if m.waiting != nil {
		m.waiting = nil
		for i := len(m.heap)/2 - 1; i >= 0; i-- {
			m.sink(i)
		}
	}
	if m.given {
		if err := m.replaceTop(); err != nil {
			return err
		}
	}
	if len(m.heap) == 0 {
		return io.EOF
	}
	return nil
}

// replaceTop reads on where the top came from.
func (m *merged) replaceTop() error {
	m.given = false
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

// sink moves the head at i down to where it belongs. While one reader stays the earliest, that is two comparisons.
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
