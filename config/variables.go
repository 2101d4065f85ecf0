package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slidegate/slidegate/config/wording"
)

// fileMark stands before the path of a file, where the name of a variable could stand.
const fileMark = "file:"

// maxSecret is how large a file may be that ${file:PATH} stands for, in bytes.
const maxSecret = 64 << 10

// values is what ${...} stands for.
type values struct {
	lookup func(name string) (string, bool)  // a variable
	read   func(path string) (string, error) // a file
	keep   bool                              // what is not there is kept as it was written
}

// piece is a part of a URL: text as it was written, or what stands in ${ and }.
type piece struct {
	text string
	name bool
}

// expand puts in the values of variables and files. What is in a value is not looked at again. A variable that is not set, and
// a file that cannot be read, is an error, or is kept as it was written.
//
// In the user name and password, characters that a URL cannot have there are percent-encoded: /, ?, # and @, say. What comes from
// a variable may have been encoded by those who set it, since that used to be required, so a % that begins an encoded byte is left
// alone. What comes from a file is always taken literally there and in parameters.
func expand(text string, v values) (string, error) {
	pieces, err := piecesOf(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	places := placesOf(pieces)
	for i, p := range pieces {
		if !p.name {
			b.WriteString(p.text)
			continue
		}
		value, err := v.of(p.text, places[i])
		if err != nil {
			return "", err
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// piecesOf splits a URL at what stands in ${ and }.
func piecesOf(text string) (pieces []piece, err error) {
	for {
		before, after, found := strings.Cut(text, "${")
		pieces = append(pieces, piece{text: before})
		if !found {
			return pieces, nil
		}
		name, rest, closed := strings.Cut(after, "}")
		path, isFile := strings.CutPrefix(name, fileMark)
		switch {
		case !closed || name == "" || !isFile && strings.ContainsFunc(name, notInVariable):
			return nil, errors.New("after ${ must stand the name of a variable, of letters, digits and _, or file: and a path, and then }; " +
				"write $%7B for a ${ that is meant")
		case isFile && !filepath.IsAbs(path):
			return nil, fmt.Errorf("${file:%s}: the path must begin with /, such as ${file:/run/secrets/redis_password}", path)
		}
		pieces = append(pieces, piece{text: name, name: true})
		text = rest
	}
}

// place is the part of a URL that a value stands in, as far as it matters.
type place uint8

const (
	elsewhere place = iota // the host, the path, or all of the URL
	userInfo
	parameter
)

// placesOf returns the place of each piece. Only what was written literally counts: a value cannot move others.
func placesOf(pieces []piece) []place {
	places := make([]place, len(pieces))
	authority, parameters := false, false
	for i, p := range pieces {
		switch {
		case p.name && parameters:
			places[i] = parameter
			continue
		case p.name:
			continue
		}
		text := p.text
		if _, after, found := strings.Cut(text, "://"); found && !authority {
			authority, text = true, after
		}
		end := strings.IndexAny(text, "/?#")
		if end < 0 {
			end = len(text)
		}
		if authority && strings.Contains(text[:end], "@") {
			for j := range i {
				if pieces[j].name && !beforeScheme(pieces, j) {
					places[j] = userInfo
				}
			}
		}
		authority = authority && end == len(text)
		parameters = parameters || strings.Contains(text, "?")
	}
	return places
}

// beforeScheme reports whether a piece stands before the scheme has ended.
func beforeScheme(pieces []piece, i int) bool {
	for _, p := range pieces[:i] {
		if !p.name && strings.Contains(p.text, "://") {
			return false
		}
	}
	return true
}

// of returns the value of a variable or of a file, as it must stand at a place of a URL.
func (v *values) of(name string, at place) (string, error) {
	path, isFile := strings.CutPrefix(name, fileMark)
	if isFile {
		value, err := v.read(path)
		switch {
		case v.keep && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
			return "${" + name + "}", nil
		case err != nil:
			return "", err
		case at != elsewhere:
			return encode(value, false), nil
		case strings.Contains(value, "${"):
			return "", fmt.Errorf("the file %s has ${ in it, and files cannot name others; write $%%7B if it is meant", wording.Quote(path))
		}
		return value, nil
	}
	value, set := v.lookup(name)
	switch {
	case !set && v.keep:
		return "${" + name + "}", nil
	case !set:
		return "", fmt.Errorf("the environment has no variable %s; set it", wording.Quote(name))
	case strings.Contains(value, "${"):
		return "", fmt.Errorf("the variable %s has ${ in it, and variables cannot name others; write $%%7B if it is meant",
			wording.Quote(name))
	case at == userInfo:
		return encode(value, true), nil
	}
	return value, nil
}

// notInVariable reports whether the name of a variable cannot have this in it.
func notInVariable(c rune) bool { return c == '-' || c == '.' || notInName(c) }

// encode percent-encodes a value for the user name, the password or a parameter of a URL. If some of it may have been encoded
// before, it encodes only what cannot stand there.
func encode(value string, partly bool) string {
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
		switch {
		case plain:
		case !partly:
		case c == '%':
			plain = i+2 < len(value) && isHex(value[i+1]) && isHex(value[i+2])
		default:
			plain = c > ' ' && c < 0x7f && strings.IndexByte("/?#@", c) < 0
		}
		if plain {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// readSecret returns what is in a file, without the newline at its end. No error has any of it.
func readSecret(path string) (string, error) {
	quoted := wording.Quote(path)
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no file %s; make it, or mount the secret there: %w", quoted, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("the file %s cannot be read by this user; change its owner or its mode: %w", quoted, fs.ErrPermission)
	case err != nil:
		return "", fmt.Errorf("the file %s: %w", quoted, reasonOf(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return "", fmt.Errorf("%s is a folder; name the file in it", quoted)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("the file %s: %w", quoted, reasonOf(err))
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(text) > maxSecret:
		return "", fmt.Errorf("the file %s is larger than 64 KiB, which no password is; is it the right one?", quoted)
	case len(text) == 0:
		return "", fmt.Errorf("the file %s is empty; write the secret into it", quoted)
	case bytes.ContainsAny(text, "\x00\r\n"):
		return "", fmt.Errorf("the file %s has several lines, or a zero byte; write the secret into one line", quoted)
	}
	return string(text), nil
}

// reasonOf returns an error of the operating system without the path, which stands before it already.
func reasonOf(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
