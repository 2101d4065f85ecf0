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
	// How requests of a browser and their headers begin, and what is not text.
	foreignWord = regexp.MustCompile(`(?i)^(?:[^!-~]|HTTP/[0-9]|POST$|GET$|PUT$|[^:]*:)`)
	httpVersion = regexp.MustCompile(`(?i)^HTTP/[0-9]`)
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
	command = strings.Fields(line)
	if n := len(command); n > b.args || n > 0 && (foreignWord.MatchString(command[0]) || httpVersion.MatchString(command[n-1])) {
		return nil, "", errWrong
	}
	return command, rest, nil
}
