package journal

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
)

// A file begins with a page: the header at 0, which is written before the file is used, and two marks that are written once, later. Each
// is within a sector, which a disk writes as a whole, and has a checksum of its own.
const (
	headerBytes  = 4096
	completeMark = 512  // the checkpoint that begins here is complete, and synced up to a position
	closedMark   = 1024 // the journal was closed, and synced up to a position
	sectorBytes  = 512

	magic   = "slidegate journal" // filled up with zeros
	version = 1
)

// Flags of a header.
const (
	flagFirst     = 1 << iota // the first segment of a process: previous and previousEnd are set
	flagBegins                // a checkpoint begins here
	flagGap                   // records before this may be missing, because they could not be written
	flagOrdered               // written in order: there is nothing missing but at the end
	flagAllocated             // the file was made with its full size
)

// header is what a file says about itself.
type header struct {
	size        int64
	seq         uint64
	boot        [16]byte
	salt        salt
	flags       uint64
	previous    uint64 // the last segment that this process found, 0 if none
	previousEnd uint64 // where its records end
}

func (h header) is(flag uint64) bool { return h.flags&flag != 0 }

// sumAt is the position of the header's checksum.
const sumAt = 120

func (h header) encode() []byte {
	page := make([]byte, headerBytes)
	copy(page, magic)
	binary.LittleEndian.PutUint64(page[24:], version)
	binary.LittleEndian.PutUint64(page[32:], uint64(h.size))
	binary.LittleEndian.PutUint64(page[40:], h.seq)
	copy(page[48:], h.boot[:])
	binary.LittleEndian.PutUint64(page[64:], h.salt.a)
	binary.LittleEndian.PutUint64(page[72:], h.salt.b)
	binary.LittleEndian.PutUint64(page[80:], h.flags)
	binary.LittleEndian.PutUint64(page[88:], h.previous)
	binary.LittleEndian.PutUint64(page[96:], h.previousEnd)
	binary.LittleEndian.PutUint64(page[sumAt:], sumOf(salt{a: multiplier, b: multiplier}, page[:sumAt]))
	return page
}

// sumOf returns the checksum of bytes whose length is a multiple of two words.
func sumOf(s salt, text []byte) uint64 {
	sum := s.begin(uint64(len(text)), 0)
	for ; len(text) >= 2*wordBytes; text = text[2*wordBytes:] {
		sum = s.add(sum, binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[wordBytes:]))
	}
	if len(text) > 0 {
		sum = s.add(sum, binary.LittleEndian.Uint64(text), 0)
	}
	return sum | 1 // 0 means that there is none
}

// decodeHeader returns the header of a file, and what is wrong with it. newer is true if another version wrote it.
func decodeHeader(page []byte) (h header, problem string, newer bool) {
	if len(page) < headerBytes {
		return h, "the file is shorter than its header", false
	}
	if strings.TrimRight(string(page[:24]), "\x00") != magic {
		return h, "it is not a journal's file", false
	}
	if v := binary.LittleEndian.Uint64(page[24:]); v != version {
		if v > version && v < 1000 {
			return h, "it has format version " + strconv.FormatUint(v, 10), true
		}
		return h, "its version is invalid", false
	}
	if binary.LittleEndian.Uint64(page[sumAt:]) != sumOf(salt{a: multiplier, b: multiplier}, page[:sumAt]) {
		return h, "the checksum of its header is wrong", false
	}
	h.size = int64(binary.LittleEndian.Uint64(page[32:]))
	h.seq = binary.LittleEndian.Uint64(page[40:])
	copy(h.boot[:], page[48:])
	h.salt.a = binary.LittleEndian.Uint64(page[64:])
	h.salt.b = binary.LittleEndian.Uint64(page[72:])
	h.flags = binary.LittleEndian.Uint64(page[80:])
	h.previous = binary.LittleEndian.Uint64(page[88:])
	h.previousEnd = binary.LittleEndian.Uint64(page[96:])
	if h.size < minSegment || h.size > maxSegment {
		return h, "its size is invalid", false
	}
	return h, "", false
}

// mark says that everything up to a position is on the disk.
type mark struct {
	seq, end uint64 // a position in a segment
	bytes    uint64 // of a checkpoint
}

func (m mark) encode(s salt, at int) []byte {
	text := make([]byte, 4*wordBytes)
	binary.LittleEndian.PutUint64(text, m.seq)
	binary.LittleEndian.PutUint64(text[8:], m.end)
	binary.LittleEndian.PutUint64(text[16:], m.bytes)
	binary.LittleEndian.PutUint64(text[24:], sumOf(salt{a: s.a ^ uint64(at), b: s.b}, text[:24]))
	return text
}

// decodeMark returns the mark at a position of a page, and whether there is one.
func decodeMark(page []byte, s salt, at int) (m mark, set bool, problem string) {
	text := page[at : at+4*wordBytes]
	sum := binary.LittleEndian.Uint64(text[24:])
	m = mark{seq: binary.LittleEndian.Uint64(text), end: binary.LittleEndian.Uint64(text[8:]), bytes: binary.LittleEndian.Uint64(text[16:])}
	switch {
	case sum == 0 && m == mark{}:
		return m, false, ""
	case sum != sumOf(salt{a: s.a ^ uint64(at), b: s.b}, text[:24]):
		return mark{}, false, "the checksum of a mark in its header is wrong"
	}
	return m, true, ""
}

// bootID returns what differs from one start of the operating system to the next, so that the end of a process can be told from a loss of
// power. It is zero where that is not known.
func bootID(files Files) (id [16]byte) {
	if f, ok := files.(interface{ BootID() [16]byte }); ok { // a model of a loss of power
		return f.BootID()
	}
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	if len(digits) != 32 {
		return id
	}
	for i := range id {
		b, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			return [16]byte{}
		}
		id[i] = byte(b)
	}
	return id
}
