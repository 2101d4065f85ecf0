// Package fields has the parts of requests that policies name: fields, keys made of them by templates, and costs. The files of package
// config contain them, and so do the flags of the program. Live requests and recorded traffic both make their keys by it.
package fields

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
)

// Kind is the kind of a Field: which part of a request it is.
type Kind uint8

// The kinds of fields. Header, JSON and Claim have a name.
const (
	Address Kind = iota // the client's address, or the group of addresses that it belongs to
	User                // the name of the client's user, once verified
	Method              // GET, POST, ...
	Path                // the path of the URL
	Query               // the query of the URL, without the question mark
	Host                // the host of the URL
	Status              // the status of the response; recorded traffic only
	Key                 // a key that the traffic itself contains
	Header              // a header of the request
	JSON                // a field of a line of JSON, by its path; recorded traffic only
	Claim               // a claim of the request's token, by its path, once the token is verified
	Bytes               // the size of the response; valid for a Cost only
)

// kindNames are the names of the kinds. keyKinds is the number of kinds that are valid in a key: those before Bytes.
var kindNames = []string{
	"address", "user", "method", "path", "query", "host", "status", "key", "header", "field", "claim", "bytes",
}

const keyKinds = int(Bytes)

// String returns the kind's name, as templates spell it.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("unknown(%d)", uint8(k))
	}
	return kindNames[k]
}

// hasName reports whether a field of this kind has a name.
func (k Kind) hasName() bool { return k == Header || k == JSON || k == Claim }

// Form returns the kind as it is written in a file, for errors.
func (k Kind) Form() string {
	switch k {
	case Header, Claim:
		return k.String() + ":NAME"
	case JSON:
		return k.String() + ":PATH"
	}
	return k.String()
}

// Field is one part of a request. It is a plain value and comparable: two fields are equal if they are the same part.
type Field struct {
	Kind Kind
	// Name is the name of a header in its canonical form (X-Api-Key), or the path of a field of JSON or of a claim: names of
	// nested objects, separated by dots (user.id); a backslash before a dot makes it part of a name. It is empty for all other
	// kinds.
	Name string
}

// String returns the field as templates spell it, without braces: "address", "header:X-Api-Key", "field:user.id".
func (f Field) String() string {
	if f.Kind.hasName() {
		return f.Kind.String() + ":" + f.Name
	}
	return f.Kind.String()
}

// Parse reads a field that is valid in a key, as Field.String writes it.
func Parse(text string) (Field, error) {
	word, name, named := strings.Cut(text, ":")
	for i, kindName := range kindNames[:keyKinds] {
		if word != kindName {
			continue
		}
		kind := Kind(i)
		switch {
		case kind == Header:
			return parseHeader(name)
		case kind == JSON, kind == Claim:
			return parsePath(kind, name)
		case named:
			return Field{}, fmt.Errorf("the field %s takes no name, as in %s", word, errtext.Quote(text))
		}
		return Field{Kind: kind}, nil
	}
	forms := make([]string, keyKinds)
	for i := range forms {
		forms[i] = Kind(i).Form()
	}
	hint := errtext.DidYouMean(word, kindNames[:keyKinds])
	if hint == "" && strings.Contains(word, "-") && !named {
		hint = fmt.Sprintf("; write header:%s for a header", word)
	}
	return Field{}, fmt.Errorf("%s is not a field%s (%s)", errtext.Quote(word), hint, errtext.OneOf(forms))
}

// parseHeader reads the name of a header.
func parseHeader(name string) (Field, error) {
	if name == "" {
		return Field{}, errors.New("header: needs a name, such as header:X-Api-Key")
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return Field{}, fmt.Errorf("%s is not a valid header name: it must not contain %s",
				errtext.Quote(name), errtext.Quote(string(rune(c))))
		}
	}
	return Field{Kind: Header, Name: textproto.CanonicalMIMEHeaderKey(name)}, nil
}

// parsePath reads the path of a field of JSON, or of a claim.
func parsePath(kind Kind, path string) (Field, error) {
	if path == "" {
		return Field{}, fmt.Errorf("%v: needs a %s", kind, map[Kind]string{
			JSON: "path, such as field:user.id", Claim: "name, such as claim:plan or claim:account.plan",
		}[kind])
	}
	length := 0 // of the current name
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '.':
			if length == 0 {
				return Field{}, emptyName(path)
			}
			length = 0
			continue
		case '\\':
			i++ // the next byte is part of the name
			if i == len(path) {
				return Field{}, fmt.Errorf("the path %s ends in a backslash; write two for a literal one", errtext.Quote(path))
			}
		}
		length++
	}
	if length == 0 {
		return Field{}, emptyName(path)
	}
	return Field{Kind: kind, Name: path}, nil
}

func emptyName(path string) error {
	return fmt.Errorf("the path %s has an empty name; separate names by one dot, such as user.id", errtext.Quote(path))
}
