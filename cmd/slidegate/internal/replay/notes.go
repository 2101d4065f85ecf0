package replay

import "github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"

const (
	noteBlockSize = 256 << 10 // bytes
	maxNoteBlocks = 1 << 9    // which is 128 MiB; requests beyond that go without a note
	maxTrait      = 254       // bytes of one trait that are kept
	noTrait       = 255       // the length of one that the log does not tell
)

// A trait is one of the things that a log tells of a request beside its key and its cost.
const (
	traitMethod = iota
	traitPath
	traitAgent
	traitStatus
	traitCount
)

// notes keeps what the log tells of requests until they have been decided: copied, since the line that it stood in is gone by
// then, and in blocks that are used again when all their requests are done. The feed writes it; others may read the notes of
// requests that they hold.
type notes struct {
	blocks [maxNoteBlocks]*noteBlock
	made   int
	spare  []uint32
	now    uint32 // the block that is written to
}

// noteBlock holds the notes of some requests. Only the feed looks at its counts.
type noteBlock struct {
	used  int
	open  int // how many requests refer to it
	bytes [noteBlockSize]byte
}

// note says where the traits of a request are: the block's number plus one, and the offset. 0 is no note.
type note uint64

func (n *notes) block(at note) *noteBlock { return n.blocks[at>>32-1] }

// add keeps what is told of a request, and returns where; or 0 if there is nothing to keep, or no room.
func (n *notes) add(about *traffic.About) note {
	if about.Method == nil && about.Path == nil && about.Agent == nil && about.Status == nil {
		return 0
	}
	const most = traitCount * (1 + maxTrait)
	if n.made == 0 || n.blocks[n.now].used+most > noteBlockSize {
		if !n.turn() {
			return 0
		}
	}
	b := n.blocks[n.now]
	at := note(n.now+1)<<32 | note(b.used)
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

// turn begins another block, and reports whether there is one.
func (n *notes) turn() bool {
	if n.made > 0 && n.blocks[n.now].open == 0 {
		n.blocks[n.now].used = 0
		return true
	}
	if last := len(n.spare) - 1; last >= 0 {
		n.now, n.spare = n.spare[last], n.spare[:last]
		return true
	}
	if n.made == maxNoteBlocks {
		return false
	}
	n.now = uint32(n.made)
	n.blocks[n.made] = &noteBlock{}
	n.made++
	return true
}

// hold counts a request, or a part of one, that refers to a note.
func (n *notes) hold(at note) {
	if at != 0 {
		n.block(at).open++
	}
}

// release counts one that does not any more.
func (n *notes) release(at note) {
	if at == 0 {
		return
	}
	b := n.block(at)
	if b.open--; b.open == 0 && uint32(at>>32-1) != n.now {
		b.used = 0
		n.spare = append(n.spare, uint32(at>>32-1))
	}
}

// read returns the traits at a note; nil is one that the log does not tell.
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
