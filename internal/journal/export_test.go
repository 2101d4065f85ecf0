package journal

import "encoding/binary"

var SegmentName = segmentName

var headerSalt = salt{a: multiplier, b: multiplier}

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
		what, n, _, _ := parse(file, off, h.salt)
		word := uint32(binary.LittleEndian.Uint64(file[off:]))
		if what == broken {
			sum := h.salt.sealed(off, word)
			switch word & 7 {
			case formNote:
				sum = h.salt.note(off, word>>3, binary.LittleEndian.Uint64(file[off+8:]), binary.LittleEndian.Uint64(file[off+16:]))
			case formBody:
				sum = h.salt.body(off, uint8(word>>3), file[off+8:][:word>>11])
			}
			binary.LittleEndian.PutUint64(file[off:], sum)
			what, n, _, _ = parse(file, off, h.salt)
		}

		if what != whole && what != open {
			return
		}
		off += n
	}
}
