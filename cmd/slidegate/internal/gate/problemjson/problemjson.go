// Package problemjson writes the problem documents (RFC 9457) with which the service responds to requests that it does
// not serve. It also sends the bodies of refusals, which package httplimit makes.
package problemjson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/slidegate/slidegate/internal/reply"
)

// Document is a problem document. Only Status and Detail are required. It must not contain a key.
type Document struct {
	Type   string `json:"type"`  // "" means about:blank
	Title  string `json:"title"` // "" means the text of the status
	Status int    `json:"status"`
	Detail string `json:"detail"`

	// The position of an error in the request.
	Field  string `json:"field,omitempty"`
	Offset *int   `json:"offset,omitempty"` // in bytes, from 0
	Line   int    `json:"line,omitempty"`   // from 1
	Meant  string `json:"did_you_mean,omitempty"`
}

// StatusClientLeft is the status of a request whose client has left.
const StatusClientLeft = reply.StatusClientLeft

// HasLeft reports whether an error is that of a request whose client has left. A store may return the same error for other reasons.
func HasLeft(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && r.Context().Err() != nil
}

// Refused is the response to a client on a block list.
var Refused = Document{Status: http.StatusForbidden, Detail: "The client is on a block list."}

// Blocked is the response to a client that an operator has blocked.
var Blocked = Document{Status: http.StatusForbidden, Detail: "The client is blocked."}

// Text returns the document as it is sent.
func (d Document) Text() []byte {
	d.Type, d.Title = cmp.Or(d.Type, "about:blank"), cmp.Or(d.Title, http.StatusText(d.Status))
	text, err := json.Marshal(&d)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return append(text, '\n')
}

// Send writes the document as the response.
func (d Document) Send(w http.ResponseWriter) { Send(w, d.Status, d.Text()) }

var (
	contentType = reply.Problem.ContentType()
	noStore     = []string{"no-store"}
)

// Send writes the text of a document as the response.
func Send(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = contentType, noStore // RFC 6585: a 429 must not be stored by a cache
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone away
}

// SendJSON writes a value that is not a problem as the response.
func SendJSON(w http.ResponseWriter, body any) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{"application/json"}, noStore
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // the client may have gone away
}
