package clientip

import "net/netip"

// Parse reads an address as it is written in logs and headers: bare (192.0.2.1, 2001:db8::1), with a port (192.0.2.1:80,
// [2001:db8::1]:443), in brackets ([2001:db8::1]) or with a zone (fe80::1%eth0), which it drops. An IPv4-mapped IPv6
// address becomes IPv4. Everything else is rejected: names, prefixes, quotes, spaces, numbers with leading zeros (which
// some programs read as octal), and a port after IPv6 without brackets, which could also be part of the address. It does
// not allocate.
//
// The standard library's parser accepts only strings and allocates for what it rejects; this one accepts the same
// addresses.
func Parse[Text ~string | ~[]byte](text Text) (addr netip.Addr, ok bool) {
	if quad, end, ok := parse4(text); ok {
		if !endsAfter4(text[end:]) {
			return netip.Addr{}, false
		}
		return netip.AddrFrom4(quad), true
	}
	bytes, ok := parseDecorated6(text)
	if !ok {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(bytes).Unmap(), true
}

// parseDecorated6 reads an IPv6 address with everything that may surround it.
func parseDecorated6[Text ~string | ~[]byte](text Text) (addr [16]byte, ok bool) {
	bracket := len(text) > 0 && text[0] == '['
	if bracket {
		text = text[1:]
	}
	addr, end, ok := parse6(text)
	if !ok {
		return addr, false
	}
	rest := text[end:]
	if len(rest) > 0 && rest[0] == '%' {
		zone := zoneLength(rest[1:])
		if zone == 0 {
			return addr, false
		}
		rest = rest[1+zone:]
	}
	if !bracket {
		return addr, len(rest) == 0
	}
	if len(rest) == 0 || rest[0] != ']' {
		return addr, false
	}
	return addr, len(rest) == 1 || isPort(rest[1:])
}

// endsAfter4 reports whether an address may end here: nothing follows, or a port.
func endsAfter4[Text ~string | ~[]byte](rest Text) bool { return len(rest) == 0 || isPort(rest) }

// isPort reports whether text is a colon and a port, 0 to 65535 in at most five digits.
func isPort[Text ~string | ~[]byte](text Text) bool {
	if len(text) < 2 || len(text) > 6 || text[0] != ':' {
		return false
	}
	port := 0
	for i := 1; i < len(text); i++ {
		digit := text[i] - '0'
		if digit > 9 {
			return false
		}
		port = port*10 + int(digit)
	}
	return port <= 65535
}

// zoneLength returns how many bytes at the start of text can belong to a zone: visible ASCII, except characters that end an
// address or turn it into a prefix.
func zoneLength[Text ~string | ~[]byte](text Text) int {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c <= ' ', c >= 0x7f, c == '[', c == ']', c == '%', c == '/':
			return i
		}
	}
	return len(text)
}

// parse4 reads the IPv4 address at the start of text, and returns where it ends. What follows may still show that text is
// not an address.
func parse4[Text ~string | ~[]byte](text Text) (quad [4]byte, end int, ok bool) {
	i := 0
	for part := range quad {
		if part > 0 {
			if i >= len(text) || text[i] != '.' {
				return quad, 0, false
			}
			i++
		}
		start, value := i, uint(0)
		for ; i < len(text) && i < start+3; i++ {
			digit := uint(text[i] - '0')
			if digit > 9 {
				break
			}
			value = value*10 + digit
		}
		if i == start || value > 255 || text[start] == '0' && i > start+1 {
			return quad, 0, false
		}
		quad[part] = byte(value)
	}
	return quad, i, true
}

// parse6 reads the IPv6 address at the start of text, without brackets and zone, and returns where it ends. What follows
// may still show that text is not an address.
func parse6[Text ~string | ~[]byte](text Text) (addr [16]byte, end int, ok bool) {
	i, n := 0, 0 // bytes read from text, and written to addr
	gap := -1    // where in addr the :: is
	if len(text) >= 2 && text[0] == ':' && text[1] == ':' {
		i, gap = 2, 0
	}
	for n < 16 {
		start, value := i, uint(0)
		for ; i < len(text) && i < start+4; i++ {
			digit := uint(hexDigits[text[i]])
			if digit > 15 {
				break
			}
			value = value<<4 | digit
		}
		if i == start {
			if gap != n {
				return addr, 0, false // only a :: may end an address
			}
			break
		}
		if i < len(text) && text[i] == '.' {
			quad, length, ok := parse4(text[start:])
			if !ok || n > 12 {
				return addr, 0, false
			}
			n += copy(addr[n:], quad[:])
			i = start + length
			break
		}
		addr[n], addr[n+1] = byte(value>>8), byte(value)
		n += 2
		if n == 16 || i == len(text) || text[i] != ':' {
			break
		}
		i++
		if i < len(text) && text[i] == ':' {
			if gap >= 0 {
				return addr, 0, false
			}
			gap = n
			i++
		}
	}
	if (n == 16) != (gap < 0) {
		return addr, 0, false // too few groups, or a :: that stands for no group
	}
	if gap >= 0 {
		moved := copy(addr[16-(n-gap):], addr[gap:n])
		clear(addr[gap : 16-moved])
	}
	return addr, i, true
}

// hexDigits maps each hexadecimal digit to its value, and every other byte to 255.
var hexDigits = func() (table [256]byte) {
	for c := range table {
		switch {
		case '0' <= c && c <= '9':
			table[c] = byte(c - '0')
		case 'a' <= c && c <= 'f':
			table[c] = byte(c - 'a' + 10)
		case 'A' <= c && c <= 'F':
			table[c] = byte(c - 'A' + 10)
		default:
			table[c] = 255
		}
	}
	return table
}()
