package replay

import "github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"

// A trait is a property of a request in a log, other than its key and its cost.
const (
	traitMethod = iota
	traitPath
	traitAgent
	traitStatus
	traitCount
)

// maxTrait is the number of bytes kept of one trait.
const maxTrait = 255

// note is a copy of the traits of a request, each after its length in one byte: the line of the log is no longer valid when the request is
// decided. It is empty if the log has no traits.
type note string

// noteOf returns the note of a request. It uses the buffer.
func noteOf(about *traffic.Details, buf *[]byte) note {
	if about.Method == nil && about.Path == nil && about.Agent == nil && about.Status == nil {
		return ""
	}
	text := (*buf)[:0]
	for _, trait := range [traitCount][]byte{about.Method, about.Path, about.Agent, about.Status} {
		trait = trait[:min(len(trait), maxTrait)]
		text = append(append(text, byte(len(trait))), trait...)
	}
	*buf = text
	return note(text)
}

// traits returns the traits; one that the log does not have is empty.
func (n note) traits() (traits [traitCount]string) {
	text := string(n)
	for i := range traits {
		size := 1 + int(text[0])
		traits[i], text = text[1:size], text[size:]
	}
	return traits
}
