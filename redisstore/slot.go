package redisstore

import "strings"

// slot returns the hash slot of a key's name, as defined by Redis Cluster: the CRC-16 (XMODEM) of the text between the
// first pair of braces, modulo 16384. Names made by this package always have braces, and they are never empty.
func slot(name string) uint16 {
	open := strings.IndexByte(name, '{')
	tag := name[open+1:]
	tag = tag[:strings.IndexByte(tag, '}')]
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % 16384
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
