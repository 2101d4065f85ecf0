package resp

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

var errWrong = errors.New("wrong")

var lengthLine = regexp.MustCompile(`^(0|-?[1-9][0-9]*)\r\n`)

// decode is a slow and obvious parser of the protocol: it returns all commands of a text, and the error after them.
func decode(text []byte, b bounds) (commands [][]string, err error) {
	rest := string(text)
	for rest != "" {
		if rest[0] != '*' {
			return commands, errWrong
		}
		var command []string
		if command, rest, err = decodeArray(rest, b); err != nil {
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
