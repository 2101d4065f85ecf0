package resp

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

var errWrong = errors.New("wrong")

var (
	lengthLine = regexp.MustCompile(`^(0|-?[1-9][0-9]*)\r\n`)
	inlineWord = regexp.MustCompile(`^(?s)((?:[^\s"'\v])*)("(?:[^"\\]|\\.)*")?`)
	hexEscape  = regexp.MustCompile(`^\\x[0-9a-fA-F]{2}`)
	// What a browser sends, and what is not text.
	otherProtocol = regexp.MustCompile(`(?i)^[\t-\r ]*(?:[^\t-\r !-~]|HTTP/[0-9]|POST(?:[\t-\r ]|$)|[^\t-\r ]*:|` +
		`(?:GET|PUT)[\t-\r ]+(?:[/*]|(?s:.*)://)|(?s:.*)[\t-\r ]HTTP/[0-9][^\t-\r ]*[\t-\r ]*$)`)
)

// decode is a slow and obvious parser of the protocol: it returns all commands of a text, and the error after them.
func decode(text []byte, b bounds) (commands [][]string, err error) {
	rest := string(text)
	for rest != "" {
		var command []string
		if rest[0] == '*' {
			command, rest, err = decodeArray(rest, b)
		} else {
			command, rest, err = decodeLine(rest, b)
		}
		if err != nil {
			return commands, err
		}
		if len(command) > 0 {
			commands = append(commands, command)
		}
	}
	return commands, nil
}

// decodeLength reads a length after its letter.
func decodeLength(text string, limit int) (n int, rest string, err error) {
	found := lengthLine.FindString(text[1:])
	if found == "" || len(found) > 26 {
		if len(text) <= 26 && !strings.Contains(text, "\n") { // its end may still come
			return 0, "", io.ErrUnexpectedEOF
		}
		return 0, "", errWrong
	}
	long, err := strconv.ParseInt(strings.TrimSuffix(found, "\r\n"), 10, 64)
	if err != nil || long > int64(limit) {
		return 0, "", errWrong
	}
	return int(max(long, -1)), text[1+len(found):], nil
}

func decodeArray(text string, b bounds) (command []string, rest string, err error) {
	n, rest, err := decodeLength(text, b.args)
	for i := 0; i < n && err == nil; i++ {
		if rest == "" {
			return nil, "", io.ErrUnexpectedEOF
		}
		if rest[0] != '$' {
			return nil, "", errWrong
		}
		var length int
		if length, rest, err = decodeLength(rest, b.bulk); err != nil {
			return nil, "", err
		}
		if length < 0 || len(text)-len(rest)+length+2 > b.command {
			return nil, "", errWrong
		}
		if len(rest) < length+2 {
			return nil, "", io.ErrUnexpectedEOF
		}
		if rest[length:length+2] != "\r\n" {
			return nil, "", errWrong
		}
		command, rest = append(command, rest[:length]), rest[length+2:]
	}
	return command, rest, err
}

func decodeLine(text string, b bounds) (command []string, rest string, err error) {
	line, rest, complete := strings.Cut(text, "\n")
	if !complete {
		if len(line) > b.bulk+1 {
			return nil, "", errWrong
		}
		return nil, "", io.ErrUnexpectedEOF
	}
	if len(strings.TrimSuffix(line, "\r")) > b.bulk {
		return nil, "", errWrong
	}
	if otherProtocol.MatchString(line) {
		return nil, "", errWrong
	}
	const blanks = " \t\n\v\f\r"
	for line = strings.TrimLeft(line, blanks); line != ""; line = strings.TrimLeft(line, blanks) {
		found := inlineWord.FindStringSubmatch(line)
		line = line[len(found[0]):]
		if found[2] == "" && strings.HasPrefix(line, "'") {
			found[2], line = cutSingle(line)
		}
		if line != "" && !strings.ContainsRune(blanks, rune(line[0])) {
			return nil, "", errWrong // a quote that is not closed, or is followed by more
		}
		command = append(command, found[1]+decodeQuoted(found[2]))
		if len(command) > b.args {
			return nil, "", errWrong
		}
	}
	return command, rest, nil
}

// cutSingle cuts off a word in single quotes, in which only such a quote can be escaped; nothing if it is unterminated.
func cutSingle(line string) (quoted, rest string) {
	for at := 1; at < len(line); at++ {
		if line[at] == '\'' && line[at-1] != '\\' {
			return line[:at+1], line[at+1:]
		}
	}
	return "", line
}

func decodeQuoted(text string) string {
	if len(text) < 2 {
		return ""
	}
	inner := text[1 : len(text)-1]
	if text[0] == '\'' {
		return strings.ReplaceAll(inner, `\'`, "'")
	}
	var b strings.Builder
	for inner != "" {
		if hex := hexEscape.FindString(inner); hex != "" {
			n, _ := strconv.ParseUint(hex[2:], 16, 8)
			b.WriteByte(byte(n))
			inner = inner[len(hex):]
			continue
		}
		if inner[0] == '\\' {
			inner = inner[1:]
			if at := strings.IndexByte("nrtba", inner[0]); at >= 0 {
				b.WriteByte("\n\r\t\b\a"[at])
				inner = inner[1:]
				continue
			}
		}
		b.WriteByte(inner[0])
		inner = inner[1:]
	}
	return b.String()
}
