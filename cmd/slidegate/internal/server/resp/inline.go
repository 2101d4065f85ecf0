package resp

import (
	"bytes"
	"strings"
)

// inline reads a command that is a line of text, as typed in a terminal: words separated by blanks, or in quotes. The
// words are unquoted in place, since they only get shorter.
func (r *reader) inline(b bounds) (args [][]byte, ok bool, err error) {
	pending := r.buf[r.start:r.end]
	end := bytes.IndexByte(pending[r.at:], '\n')
	if end < 0 && len(pending) <= b.bulk+1 { // there may be one more byte, the line's \r
		r.at = len(pending)
		return nil, false, nil
	}
	if end < 0 || len(bytes.TrimSuffix(pending[:r.at+end], []byte("\r"))) > b.bulk {
		return nil, false, errLine
	}
	line := pending[:r.at+end]
	if isForeign(line) {
		return nil, false, errForeign
	}
	r.at = len(line) + 1
	r.args = r.args[:0]
	for at := 0; ; {
		for at < len(line) && isBlank(line[at]) {
			at++
		}
		if at == len(line) {
			break
		}
		if len(r.args) == b.args {
			return nil, false, errArgs
		}
		word, next, ok := unquote(line, at)
		if !ok {
			return nil, false, errQuotes
		}
		r.args = append(r.args, word)
		at = next
	}
	r.discard()
	return r.args, true, nil
}

// isForeign reports whether a line is of another protocol. A web page can make a browser, or a program that fetches URLs,
// send a request here. The page controls everything after the first line, so none of it may be run. A line is an HTTP
// request line if it ends in an HTTP version, whatever the method, or if it has a method and a path; it is a header if
// its first word contains a colon. No command has such a name, nor one that begins with a control byte or a non-ASCII
// byte, as a TLS handshake does.
func isForeign(line []byte) bool {
	line = bytes.TrimFunc(line, func(r rune) bool { return r < 0x80 && isBlank(byte(r)) })
	if len(line) == 0 {
		return false
	}
	if line[0] < '!' || line[0] > '~' {
		return true
	}
	end := bytes.IndexFunc(line, func(r rune) bool { return r < 0x80 && isBlank(byte(r)) })
	if end < 0 {
		return isForeignWord(line)
	}
	first, rest := line[:end], bytes.TrimLeft(line[end:], " \t\v\f\r")
	last := rest[bytes.LastIndexAny(rest, " \t\v\f\r")+1:]
	if isForeignWord(first) || isVersion(last) {
		return true
	}
	return isMethod(first) && (rest[0] == '/' || rest[0] == '*' || bytes.Contains(rest, []byte("://")))
}

// isForeignWord reports whether no inline command can begin with this word.
func isForeignWord(first []byte) bool {
	return bytes.IndexByte(first, ':') >= 0 || is(first, "POST") || isVersion(first)
}

// isVersion reports whether a word is an HTTP version, such as HTTP/1.1.
func isVersion(word []byte) bool {
	const name = "HTTP/"
	return len(word) > len(name) && is(word[:len(name)], name) && word[len(name)] >= '0' && word[len(name)] <= '9'
}

// isMethod reports whether a word is an HTTP method.
func isMethod(word []byte) bool {
	switch strings.ToUpper(string(word)) {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI", "PROPFIND", "QUERY":
		return true
	}
	return false
}

func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// unquote reads the word that begins at at, and returns it and where it ends. It overwrites the line.
func unquote(line []byte, at int) (word []byte, next int, ok bool) {
	word = line[at:at]
	for ; at < len(line) && !isBlank(line[at]); at++ {
		quote := line[at]
		if quote != '"' && quote != '\'' {
			word = append(word, quote)
			continue
		}
		at++
		for ; at < len(line) && line[at] != quote; at++ {
			c := line[at]
			if c == '\\' && at+1 < len(line) {
				c, at = escaped(line, at, quote)
			}
			word = append(word, c)
		}
		// The quote must be closed, and a blank must follow.
		if at == len(line) || at+1 < len(line) && !isBlank(line[at+1]) {
			return nil, 0, false
		}
	}
	return word[:len(word):len(word)], at, true
}

// escaped reads what follows the backslash at at, and returns the index of its last byte.
func escaped(line []byte, at int, quote byte) (c byte, last int) {
	if quote == '\'' { // only the quote itself can be escaped
		if line[at+1] == '\'' {
			return '\'', at + 1
		}
		return '\\', at
	}
	if line[at+1] == 'x' && at+3 < len(line) {
		high, low := hexDigit(line[at+2]), hexDigit(line[at+3])
		if high >= 0 && low >= 0 {
			return byte(high<<4 | low), at + 3
		}
	}
	if i := bytes.IndexByte([]byte("nrtba"), line[at+1]); i >= 0 {
		return "\n\r\t\b\a"[i], at + 1
	}
	return line[at+1], at + 1
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
