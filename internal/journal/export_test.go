package journal

import "encoding/binary"

// Version changes the version in the header of a file, and its checksum if sealed.
func Version(file []byte, v uint64, sealed bool) {
	binary.LittleEndian.PutUint64(file[24:], v)
	if sealed {
		binary.LittleEndian.PutUint64(file[sumAt:], sumOf(salt{a: multiplier, b: multiplier}, file[:sumAt]))
	}
}

// Boot returns the boot ID in the header of a file.
func Boot(file []byte) (id [16]byte) {
	copy(id[:], file[48:])
	return id
}
