package journal

import "encoding/binary"

var SegmentName = segmentName

// Folder returns the files of a folder, for a test that wraps them.
func Folder(dir string) Files { return folder(dir) }

// CheckpointBytes returns the length of the last checkpoint.
func CheckpointBytes(j *Journal) int64 { return int64(j.checkpoint.bytes) }

// Version changes the version in the header of a file, and its checksum if sealed.
func Version(file []byte, v uint64, sealed bool) {
	binary.LittleEndian.PutUint64(file[24:], v)
	if sealed {
		binary.LittleEndian.PutUint64(file[sumAt:], sumOf(headerSalt, file[:sumAt]))
	}
}

// Boot returns the boot ID in the header of a file.
func Boot(file []byte) (id [16]byte) {
	copy(id[:], file[48:])
	return id
}

// Reseal makes the checksums of a file's header right, and of its records up to one whose length is not valid.
func Reseal(file []byte, seq uint64, header, records bool) {
	if len(file) < headerBytes {
		return
	}
	if header {
		binary.LittleEndian.PutUint64(file[40:], seq)
		binary.LittleEndian.PutUint64(file[sumAt:], sumOf(headerSalt, file[:sumAt]))
	}
	h, _, _ := decodeHeader(file)
	for off := uint64(headerBytes); records && off+wordBytes <= uint64(len(file)); {
		what, n, _, _ := parse(file, off, h.Salt)
		word := uint32(binary.LittleEndian.Uint64(file[off:]))
		if what == broken {
			sum := h.Salt.sealed(off, word)
			switch word & 7 {
			case formNote:
				sum = h.Salt.note(off, word>>3, binary.LittleEndian.Uint64(file[off+8:]), binary.LittleEndian.Uint64(file[off+16:]))
			case formBody:
				sum = h.Salt.body(off, uint8(word>>3), file[off+8:][:word>>11])
			}
			binary.LittleEndian.PutUint64(file[off:], sum)
			what, n, _, _ = parse(file, off, h.Salt)
		}

		if what != whole && what != open {
			return
		}
		off += n
	}
}
