package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Refusal is an httplimit.Refusal.
type Refusal struct {
	Type, Title, Detail string
	Status              int
}

// Statuses are the statuses that a Refusal can have, with the default titles of its problem documents.
var Statuses = map[int]string{
	http.StatusTooManyRequests: "Too many requests", http.StatusPaymentRequired: "Payment required", http.StatusForbidden: "Forbidden",
}

// Bounds of the texts, in bytes.
const (
	maxType   = 256
	maxTitle  = 128
	maxDetail = 1024
)

// Placeholders of a Detail, without their braces.
const (
	retryAfterWord = "retry_after"
	limitWord      = "limit"
	policyWord     = "policy"
)

// Check returns an error if a field is not valid in a response. It wraps the error without the field's name.
func (r Refusal) Check() error {
	_, err := r.Prepare("")
	return err
}

// Texts is a Refusal prepared for the refusals of one policy. It is safe for concurrent use. A nil pointer means the default
// texts.
type Texts struct {
	problem []byte // the document up to its detail
	title   []byte // in quotes
	detail  []detailPart
	status  int
}

// detailPart is a part of a detail: text, or a placeholder.
type detailPart struct {
	text string
	json string // the text escaped for a JSON string
	word string // the placeholder; empty for text
}

// Prepare returns the texts of a policy, or nil if all of it is the default.
func (r Refusal) Prepare(policy string) (*Texts, error) {
	if r == (Refusal{}) {
		return nil, nil
	}
	if err := checkText(r.Title, maxTitle); err != nil {
		return nil, fmt.Errorf("title: %w", err)
	}
	if err := checkType(r.Type); err != nil {
		return nil, fmt.Errorf("type: %w", err)
	}
	detail, err := parseDetail(r.Detail, policy)
	if err != nil {
		return nil, fmt.Errorf("detail: %w", err)
	}
	if r.Status == 0 {
		r.Status = http.StatusTooManyRequests
	}
	usual, ok := Statuses[r.Status]
	if !ok {
		return nil, fmt.Errorf("status: must be 429, 402 or 403, not %d", r.Status)
	}
	w := &Texts{detail: detail, title: quoteJSON(r.Title), status: r.Status}
	if r.Type == "" {
		r.Type = problemQuota
	}
	problemTitle := w.title
	if r.Title == "" {
		w.title, problemTitle = []byte(`"rate limited"`), quoteJSON(usual)
	}
	w.problem = fmt.Appendf(nil, `{"type":%s,"title":%s,"status":%d,"detail":"`, quoteJSON(r.Type), problemTitle, r.Status)
	return w, nil
}

// checkText rejects a text that is too long, not UTF-8, or has control characters.
func checkText(text string, maxBytes int) error {
	switch {
	case len(text) > maxBytes:
		return fmt.Errorf("has %d bytes; use at most %d", len(text), maxBytes)
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("contains a control character, such as a line break; write one line")
	}
	return nil
}

// checkType rejects a type that is not an absolute URI.
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
			return nil, errors.New("unpaired brace; write {{ or }} for a literal one")
		case word == policyWord:
			b.WriteString(policy)
		case word == retryAfterWord, word == limitWord:
			flush()
			parts = append(parts, detailPart{word: word})
		default:
			return nil, fmt.Errorf("unknown placeholder {%s}; want {retry_after}, {limit} or {policy}, or {{ for a literal brace", word)
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
		panic(err) // encoding a string cannot fail
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// apply reports whether the texts and the status are about a refusal: they are not true of a request that is larger than the quota, that
// could not be decided, or that no limit decided. Items is how many limits did.
func (w *Texts) apply(items int, d *slidegate.Decision) bool {
	return w != nil && retrySeconds(d) >= 0 && d.Flags&rule.FallbackClosed == 0 && int(d.Index) < items
}

// Status is the function Status with the status of these texts. Items is how many limits decided.
func (w *Texts) Status(items int, d *slidegate.Decision) int {
	if w.apply(items, d) {
		return w.status
	}
	return Status(d)
}

// AppendRefusal is Body.AppendRefusal with these texts.
func (w *Texts) AppendRefusal(b []byte, body Body, items []*Item, d *slidegate.Decision) []byte {
	if !w.apply(len(items), d) {
		return body.AppendRefusal(b, items, d)
	}
	wait, item := retrySeconds(d), items[d.Index]
	switch body {
	case NoBody:
		return b
	case Text:
		return append(w.appendDetail(b, item, d.Remaining, wait, false), '\n')
	case JSON:
		b = append(append(b, `{"error":`...), w.title...)
		b = append(append(b, `,"limit":`...), item.name...)
		if len(w.detail) > 0 {
			b = append(w.appendDetail(append(b, `,"detail":"`...), item, d.Remaining, wait, true), '"')
		}
	default:
		b = w.appendDetail(append(b, w.problem...), item, d.Remaining, wait, true)
		b = append(append(append(b, `","violated-policies":[`...), item.name...), ']')
	}
	b = append(b, `,"retry_after":`...)
	return append(strconv.AppendInt(b, wait, 10), "}\n"...)
}

// appendDetail appends the detail, or the default sentence if there is none, as text or for a JSON string.
func (w *Texts) appendDetail(b []byte, item *Item, left, wait int64, forJSON bool) []byte {
	if len(w.detail) == 0 {
		return appendSentence(b, item.slots, left, wait)
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
func (item *Item) label() string {
	if item.limit.Name != "" {
		return item.limit.Name
	}
	return item.limit.String()
}
