package replay

import "github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"

const (
	noteBlockSize = 64 << 10 // bytes
	maxTrait      = 254      // bytes kept of one trait
	noTrait       = 255      // the length of a trait that the log does not have
)

// A trait is a property of a request in a log, other than its key and its cost.
const (
	traitMethod = iota
	traitPath
	traitAgent
	traitStatus
	traitCount
)

// note holds the traits of a request until it is decided, since the log line is no longer valid by then. It is nil if
// there are none.
type note []byte

// notes allocates notes, many at a time.
type notes struct{ free []byte }

// add returns the note of a request.
func (n *notes) add(about *traffic.Details) note {
	if about.Method == nil && about.Path == nil && about.Agent == nil && about.Status == nil {
		return nil
	}
	if cap(n.free) < traitCount*(1+maxTrait) {
		n.free = make([]byte, 0, noteBlockSize)
	}
	text := n.free
	for _, trait := range [traitCount][]byte{about.Method, about.Path, about.Agent, about.Status} {
		if trait == nil {
			text = append(text, noTrait)
			continue
		}
		trait = trait[:min(len(trait), maxTrait)]
		text = append(append(text, byte(len(trait))), trait...)
	}
	n.free = text[len(text):]
	return note(text)
}

// traits returns the traits; one that the log does not have is nil.
func (n note) traits() (traits [traitCount][]byte) {
	for i := range traits {
		size := int(n[0])
		n = n[1:]
		if size == noTrait {
			continue
		}
		traits[i], n = n[:size:size], n[size:]
	}
	return traits
}
