package clientip

// appendAddr6 appends an IPv6 address in its usual form (RFC 5952): lower case, no leading zeros, and :: for the first of
// the longest runs of two or more zero groups. It writes the same as netip's AppendTo.
func appendAddr6(dst []byte, addr *[16]byte) []byte {
	const hex = "0123456789abcdef"
	gapStart, gapEnd := longestGap(addr)
	var text [8*4 + 7]byte
	n := 0
	for i := 0; i < 16; i += 2 {
		if i == gapStart {
			text[n], text[n+1] = ':', ':'
			n += 2
			i = gapEnd
			if i == 16 {
				break
			}
		} else if i > 0 {
			text[n] = ':'
			n++
		}
		group := uint(addr[i])<<8 | uint(addr[i+1])
		if group >= 0x1000 {
			text[n] = hex[group>>12]
			n++
		}
		if group >= 0x100 {
			text[n] = hex[group>>8&15]
			n++
		}
		if group >= 0x10 {
			text[n] = hex[group>>4&15]
			n++
		}
		text[n] = hex[group&15]
		n++
	}
	return append(dst, text[:n]...)
}

// longestGap returns where the zero groups that :: stands for start and end, in bytes; 16, 16 if there are none.
func longestGap(addr *[16]byte) (start, end int) {
	start, end = 16, 16
	longest := 2 // a single group of zeros is written out
	for i := 0; i < 16; {
		first := i
		for i < 16 && addr[i]|addr[i+1] == 0 {
			i += 2
		}
		if i-first > longest {
			longest, start, end = i-first, first, i
		}
		i += 2
	}
	return start, end
}
