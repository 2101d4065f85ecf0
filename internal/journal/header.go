package journal

import (
	"encoding/binary"
	"encoding/hex"
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

// header is what a file says about itself. Its fields are exported for package binary: they are in the file in this order.
type header struct {
	Size        int64
	Seq         uint64
	Boot        [16]byte
	Salt        salt
	Flags       uint64
	Previous    uint64 // the last segment that this process found, 0 if none
	PreviousEnd uint64 // where its records end
}

func (h header) is(flag uint64) bool { return h.Flags&flag != 0 }

// Positions in a header, which begins with the magic.
const (
	versionAt = 24
	fieldsAt  = 32
	sumAt     = 120 // the checksum of all before it
)

var headerSalt = salt{A: multiplier, B: multiplier}

func (h header) encode() []byte {
	page := make([]byte, headerBytes)
	copy(page, magic)
	binary.LittleEndian.PutUint64(page[versionAt:], version)
	_, _ = binary.Encode(page[fieldsAt:], binary.LittleEndian, h)
	binary.LittleEndian.PutUint64(page[sumAt:], sumOf(headerSalt, page[:sumAt]))
	return page
}

// sumOf returns the checksum of bytes.
func sumOf(s salt, text []byte) uint64 {
	return s.text(s.begin(uint64(len(text)), 0), text) | 1 // 0 means that there is none
}

// decodeHeader returns the header of a file, and what is wrong with it. newer is true if another version wrote it.
func decodeHeader(page []byte) (h header, problem string, newer bool) {
	if len(page) < headerBytes {
		return h, "the file is shorter than its header", false
	}
	if strings.TrimRight(string(page[:versionAt]), "\x00") != magic {
		return h, "it is not a journal's file", false
	}
	if v := binary.LittleEndian.Uint64(page[versionAt:]); v != version {
		if v > version && v < 1000 {
			return h, "it has format version " + strconv.FormatUint(v, 10), true
		}
		return h, "its version is invalid", false
	}
	if binary.LittleEndian.Uint64(page[sumAt:]) != sumOf(headerSalt, page[:sumAt]) {
		return h, "the checksum of its header is wrong", false
	}
	_, _ = binary.Decode(page[fieldsAt:], binary.LittleEndian, &h)
	if h.Size < minSegment || h.Size > maxSegment {
		return h, "its size is invalid", false
	}
	return h, "", false
}

// mark says that everything up to a position is on the disk. Its fields are exported like those of header.
type mark struct {
	Seq, End uint64 // a position in a segment
	Bytes    uint64 // of a checkpoint
}

const markBytes = 3 * wordBytes // followed by a checksum

func (m mark) encode(s salt, at int) []byte {
	text, _ := binary.Append(nil, binary.LittleEndian, m)
	return binary.LittleEndian.AppendUint64(text, sumOf(salt{s.A ^ uint64(at), s.B}, text))
}

// decodeMark returns the mark at a position of a page, and whether there is one.
func decodeMark(page []byte, s salt, at int) (m mark, set bool, problem string) {
	text := page[at:][:markBytes]
	sum := binary.LittleEndian.Uint64(page[at+markBytes:])
	_, _ = binary.Decode(text, binary.LittleEndian, &m)
	switch {
	case sum == 0 && m == mark{}:
		return m, false, ""
	case sum != sumOf(salt{s.A ^ uint64(at), s.B}, text):
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
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")); err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}
