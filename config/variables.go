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

	"github.com/slidegate/slidegate/internal/errtext"
)

// fileMark precedes the path of a file in ${...}, in place of the name of a variable.
const fileMark = "file:"

// maxSecret is the maximum size of a file in ${file:PATH}, in bytes.
const maxSecret = 64 << 10

// values looks up the values of ${...}.
type values struct {
	lookup func(name string) (string, bool)  // a variable
	read   func(path string) (string, error) // a file
	keep   bool                              // missing variables and files are kept as written
}

// piece is a part of a URL: literal text, or the name between ${ and }.
type piece struct {
	text string
	name bool
}

// expand replaces variables and files by their values. Values are not expanded again. A variable that is not set, or a file
// that cannot be read, is an error, unless v.keep leaves it as written.
//
// In the user name and password, characters that are not valid there in a URL are percent-encoded, such as /, ?, # and @. The
// value of a variable may already be encoded, since that used to be required, so a % that begins an encoded byte is kept. The
// content of a file is always taken literally there and in parameters.
func expand(text string, v values) (string, error) {
	pieces, err := piecesOf(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	parts := urlPartsOf(pieces)
	for i, p := range pieces {
		if !p.name {
			b.WriteString(p.text)
			continue
		}
		value, err := v.value(p.text, parts[i])
		if err != nil {
			return "", err
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// piecesOf splits a URL at its ${...}.
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
			return nil, errors.New("${ must be followed by the name of a variable, of letters, digits and _, or by file: and a path, and then by }; " +
				"write $%7B for a literal ${")
		case isFile && !filepath.IsAbs(path):
			return nil, fmt.Errorf("${file:%s}: the path must begin with /, such as ${file:/run/secrets/redis_password}", path)
		}
		pieces = append(pieces, piece{text: name, name: true})
		text = rest
	}
}

// urlPart is the part of a URL that contains a value, as far as it affects the encoding.
type urlPart uint8

const (
	otherPart urlPart = iota // the host, the path, or all of the URL
	userInfo
	parameter
)

// urlPartsOf returns the part of the URL that contains each piece. Only literal text counts: a value cannot move other
// pieces.
func urlPartsOf(pieces []piece) []urlPart {
	parts := make([]urlPart, len(pieces))
	authority, parameters := false, false
	for i, p := range pieces {
		switch {
		case p.name && parameters:
			parts[i] = parameter
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
					parts[j] = userInfo
				}
			}
		}
		authority = authority && end == len(text)
		parameters = parameters || strings.Contains(text, "?")
	}
	return parts
}

// beforeScheme reports whether a piece comes before the end of the scheme.
func beforeScheme(pieces []piece, i int) bool {
	for _, p := range pieces[:i] {
		if !p.name && strings.Contains(p.text, "://") {
			return false
		}
	}
	return true
}

// value returns the value of a variable or of a file, encoded for its part of a URL.
func (v *values) value(name string, at urlPart) (string, error) {
	path, isFile := strings.CutPrefix(name, fileMark)
	if isFile {
		value, err := v.read(path)
		switch {
		case v.keep && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
			return "${" + name + "}", nil
		case err != nil:
			return "", err
		case at != otherPart:
			return encode(value, false), nil
		case strings.Contains(value, "${"):
			return "", fmt.Errorf("the file %s contains ${, which is not expanded in files; write $%%7B for a literal ${", errtext.Quote(path))
		}
		return value, nil
	}
	value, set := v.lookup(name)
	switch {
	case !set && v.keep:
		return "${" + name + "}", nil
	case !set:
		return "", fmt.Errorf("the environment variable %s is not set; set it", errtext.Quote(name))
	case strings.Contains(value, "${"):
		return "", fmt.Errorf("the variable %s contains ${, which is not expanded in variables; write $%%7B for a literal ${",
			errtext.Quote(name))
	case at == userInfo:
		return encode(value, true), nil
	}
	return value, nil
}

// notInVariable reports whether c is invalid in the name of a variable.
func notInVariable(c rune) bool { return c == '-' || c == '.' || notInName(c) }

// encode percent-encodes a value for the user name, the password or a parameter of a URL. If partly is set, some of it may
// already be encoded, and only invalid characters are encoded.
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

// readSecret returns the content of a file, without the newline at its end. Errors contain nothing of it.
func readSecret(path string) (string, error) {
	quoted := errtext.Quote(path)
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the file %s does not exist; create it, or mount the secret there: %w", quoted, fs.ErrNotExist)
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
		return "", fmt.Errorf("the file %s is larger than 64 KiB, too large for a password; is it the right one?", quoted)
	case len(text) == 0:
		return "", fmt.Errorf("the file %s is empty; write the secret into it", quoted)
	case bytes.ContainsAny(text, "\x00\r\n"):
		return "", fmt.Errorf("the file %s has several lines, or a zero byte; write the secret on one line", quoted)
	}
	return string(text), nil
}

// reasonOf returns an error of the operating system without the path, which the caller has already written.
func reasonOf(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
