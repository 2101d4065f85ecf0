package replay

import "github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"

const (
	noteBlockSize = 256 << 10 // bytes
	maxNoteBlocks = 1 << 9    // 128 MiB in total; requests beyond that have no note
	maxTrait      = 254       // bytes kept of one trait
	noTrait       = 255       // the length of a trait that the log does not have
)

// A trait is a property of a request in a log, other than its key and its cost.
const (
	traitMethod = iota
	traitPath
	traitAgent
	traitStatus
	traitCount
)

// notes keeps the traits of requests until they are decided. They are copied into blocks, since the log line is no
// longer valid by then. A block is reused when all its requests are done. Only the feed writes notes; others may read
// the notes of requests that they hold.
type notes struct {
	blocks    [maxNoteBlocks]*noteBlock
	allocated int
	spare     []uint32
	current   uint32 // the block being written
}

// noteBlock holds the notes of some requests. Only the feed uses its counts.
type noteBlock struct {
	used       int
	references int // how many requests refer to it
	bytes      [noteBlockSize]byte
}

// note is the location of the traits of a request: the block's number plus one, and the offset. 0 means no note.
type note uint64

func (n *notes) block(at note) *noteBlock { return n.blocks[at>>32-1] }

// add stores the traits of a request and returns their location, or 0 if there are none or no space is left.
func (n *notes) add(about *traffic.Details) note {
	if about.Method == nil && about.Path == nil && about.Agent == nil && about.Status == nil {
		return 0
	}
	const maxNote = traitCount * (1 + maxTrait)
	if n.allocated == 0 || n.blocks[n.current].used+maxNote > noteBlockSize {
		if !n.nextBlock() {
			return 0
		}
	}
	b := n.blocks[n.current]
	at := note(n.current+1)<<32 | note(b.used)
	text := b.bytes[:b.used]
	for _, trait := range [traitCount][]byte{about.Method, about.Path, about.Agent, about.Status} {
		if trait == nil {
			text = append(text, noTrait)
			continue
		}
		trait = trait[:min(len(trait), maxTrait)]
		text = append(text, byte(len(trait)))
		text = append(text, trait...)
	}
	b.used = len(text)
	return at
}

// nextBlock starts another block, and reports whether one was available.
func (n *notes) nextBlock() bool {
	if n.allocated > 0 && n.blocks[n.current].references == 0 {
		n.blocks[n.current].used = 0
		return true
	}
	if last := len(n.spare) - 1; last >= 0 {
		n.current, n.spare = n.spare[last], n.spare[:last]
		return true
	}
	if n.allocated == maxNoteBlocks {
		return false
	}
	n.current = uint32(n.allocated)
	n.blocks[n.allocated] = &noteBlock{}
	n.allocated++
	return true
}

// hold adds a reference to a note by a request or a part of one.
func (n *notes) hold(at note) {
	if at != 0 {
		n.block(at).references++
	}
}

// release drops a reference to a note.
func (n *notes) release(at note) {
	if at == 0 {
		return
	}
	b := n.block(at)
	if b.references--; b.references == 0 && uint32(at>>32-1) != n.current {
		b.used = 0
		n.spare = append(n.spare, uint32(at>>32-1))
	}
}

// read returns the traits at a note; a trait that the log does not have is nil.
func (n *notes) read(at note) (traits [traitCount][]byte) {
	text := n.block(at).bytes[uint32(at):]
	for i := range traits {
		size := int(text[0])
		text = text[1:]
		if size == noTrait {
			continue
		}
		traits[i], text = text[:size:size], text[size:]
	}
	return traits
}
