package httplimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Refusal is what clients are told when the limits of a policy refuse a request, in place of the usual words. An empty field
// stands for the usual one. It has no say in what is told to clients on a deny list, for a request that could not be decided, or
// for one that is larger than the quota: its words would not be true of them.
type Refusal struct {
	// Type is the type of the problem document (RFC 9457): an absolute URI, which should lead to a page that explains it.
	Type string
	// Title is its title, the same for all refusals of the type. BodyJSON has it as its error.
	Title string
	// Detail says what happened and what to do, and is all of BodyText. {retry_after} in it is how many seconds are left until the
	// request is admitted, {limit} the limit that refused, and {policy} its policy; {{ and }} are braces.
	Detail string
}

// The bounds of the texts, in bytes.
const (
	maxType   = 256
	maxTitle  = 128
	maxDetail = 1024
)

// placeholders are the words that stand in braces in a Detail.
const (
	retryAfterWord = "retry_after"
	limitWord      = "limit"
	policyWord     = "policy"
)

// RefusalError says which field of a Refusal is wrong.
type RefusalError struct {
	Field string // type, title or detail
	Err   error
}

// Error returns the field and what is wrong with it.
func (e *RefusalError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *RefusalError) Unwrap() error { return e.Err }

// Check returns an error if the fields cannot stand in an answer. It is a RefusalError.
func (r Refusal) Check() error {
	_, err := r.Words("")
	return err
}

// Words are a Refusal made ready for the refusals of one policy. They are safe for concurrent use. A nil pointer stands for the usual
// words.
type Words struct {
	problem []byte // the document up to its detail
	title   []byte // in quotes
	detail  []detailPart
}

// detailPart is a part of a detail: text, or a placeholder.
type detailPart struct {
	text string
	json string // the same as it stands in a JSON string
	word string // what stands in braces; empty for text
}

// Words returns the refusal of a policy, or nil if all of it is as usual.
func (r Refusal) Words(policy string) (*Words, error) {
	if r == (Refusal{}) {
		return nil, nil
	}
	if err := checkText(r.Title, maxTitle); err != nil {
		return nil, &RefusalError{"title", err}
	}
	if err := checkType(r.Type); err != nil {
		return nil, &RefusalError{"type", err}
	}
	detail, err := parseDetail(r.Detail, policy)
	if err != nil {
		return nil, &RefusalError{"detail", err}
	}
	w := &Words{detail: detail, title: quoteJSON(r.Title)}
	if r.Type == "" {
		r.Type = problemQuota
	}
	problemTitle := w.title
	if r.Title == "" {
		w.title, problemTitle = []byte(`"rate limited"`), []byte(`"Too many requests"`)
	}
	w.problem = fmt.Appendf(nil, `{"type":%s,"title":%s,"status":429,"detail":"`, quoteJSON(r.Type), problemTitle)
	return w, nil
}

// checkText returns an error about a text that is too long or has what nobody can read in it.
func checkText(text string, most int) error {
	switch {
	case len(text) > most:
		return fmt.Errorf("has %d bytes; write %d at most", len(text), most)
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("has a control character, such as the end of a line, in it; write one line")
	}
	return nil
}

// checkType returns an error about a type that is not an absolute URI.
func checkType(text string) error {
	if text == "" {
		return nil
	}
	if err := checkText(text, maxType); err != nil {
		return err
	}
	parsed, err := url.Parse(text)
	web := err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http")
	if err != nil || !parsed.IsAbs() || web && parsed.Host == "" || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Errorf("%q is not an absolute URI, such as https://example.com/problems/rate-limited", text)
	}
	return nil
}

// parseDetail splits a detail at its placeholders.
func parseDetail(text, policy string) (parts []detailPart, err error) {
	if err := checkText(text, maxDetail); err != nil {
		return nil, err
	}
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			quoted := quoteJSON(b.String())
			parts = append(parts, detailPart{text: b.String(), json: string(quoted[1 : len(quoted)-1])})
			b.Reset()
		}
	}
	for text != "" {
		at := strings.IndexAny(text, "{}")
		if at < 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:at])
		text = text[at:]
		if strings.HasPrefix(text, "{{") || strings.HasPrefix(text, "}}") {
			b.WriteByte(text[0])
			text = text[2:]
			continue
		}
		word, rest, closed := strings.Cut(strings.TrimPrefix(text, "{"), "}")
		switch {
		case text[0] == '}' || !closed:
			return nil, errors.New("has a brace by itself; write {{ or }} for one that is meant")
		case word == policyWord:
			b.WriteString(policy)
		case word == retryAfterWord, word == limitWord:
			flush()
			parts = append(parts, detailPart{word: word})
		default:
			return nil, fmt.Errorf("there is no {%s}; there are {retry_after}, {limit} and {policy}, and {{ is a brace", word)
		}
		text = rest
	}
	flush()
	return parts, nil
}

// quoteJSON returns a text as a JSON string.
func quoteJSON(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it is not HTML, and people may read it
	if err := enc.Encode(text); err != nil {
		panic(err) // a text can be written
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// AppendRefusal is Body.AppendRefusal with these words.
func (w *Words) AppendRefusal(b []byte, body Body, items []*HeaderItem, d *slidegate.Decision) []byte {
	wait := retrySeconds(d)
	if w == nil || wait < 0 || d.Flags&rule.FallbackClosed != 0 || int(d.Index) >= len(items) {
		return body.AppendRefusal(b, items, d)
	}
	item := items[d.Index]
	switch body {
	case BodyNone:
		return b
	case BodyText:
		return append(w.appendDetail(b, item, wait, false), '\n')
	case BodyJSON:
		b = append(append(b, `{"error":`...), w.title...)
		b = append(append(b, `,"limit":`...), item.name...)
		if len(w.detail) > 0 {
			b = append(w.appendDetail(append(b, `,"detail":"`...), item, wait, true), '"')
		}
	default:
		b = w.appendDetail(append(b, w.problem...), item, wait, true)
		b = append(append(append(b, `","violated-policies":[`...), item.name...), ']')
	}
	b = append(b, `,"retry_after":`...)
	return append(strconv.AppendInt(b, wait, 10), "}\n"...)
}

// appendDetail appends the detail, or the usual sentence if there is none, as text or for a JSON string.
func (w *Words) appendDetail(b []byte, item *HeaderItem, wait int64, forJSON bool) []byte {
	if len(w.detail) == 0 {
		return appendSentence(b, item.slots, wait)
	}
	for i := range w.detail {
		switch part := &w.detail[i]; {
		case part.word == retryAfterWord:
			b = strconv.AppendInt(b, wait, 10)
		case part.word == limitWord && forJSON:
			b = append(b, item.name[1:len(item.name)-1]...) // a quoted name is JSON too
		case part.word == limitWord:
			b = append(b, item.label()...)
		case forJSON:
			b = append(b, part.json...)
		default:
			b = append(b, part.text...)
		}
	}
	return b
}

// label returns the name of the item's limit, or its text if it has none.
func (item *HeaderItem) label() string {
	if item.limit.Name != "" {
		return item.limit.Name
	}
	return item.limit.String()
}
