// Package problemjson writes the problem documents (RFC 9457) by which the service answers requests that it does not serve.
// The bodies of refusals by a limit come from package httplimit, and are sent from here too.
package problemjson

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/slidegate/slidegate/httplimit"
)

// Document is a problem. Only Status and Detail are required. It must not contain a key.
type Document struct {
	Type   string `json:"type"`  // "" means about:blank
	Title  string `json:"title"` // "" means the text of the status
	Status int    `json:"status"`
	Detail string `json:"detail"`

	// Where a request could not be read.
	Field  string `json:"field,omitempty"`
	Offset *int   `json:"offset,omitempty"` // in bytes, the first is 0
	Line   int    `json:"line,omitempty"`   // the first is 1
	Meant  string `json:"did_you_mean,omitempty"`
}

// Denied is the answer to a client on a deny list.
var Denied = Document{Status: http.StatusForbidden, Detail: "The client is on a deny list."}

// Blocked is the answer to a client that is refused until somebody lets it in again.
var Blocked = Document{Status: http.StatusForbidden, Detail: "The client is blocked."}

// Text returns the document as it is sent.
func (d Document) Text() []byte {
	d.Type, d.Title = cmp.Or(d.Type, "about:blank"), cmp.Or(d.Title, http.StatusText(d.Status))
	text, err := json.Marshal(&d)
	if err != nil {
		panic(err) // texts and numbers alone
	}
	return append(text, '\n')
}

// Send answers a request with the document.
func (d Document) Send(w http.ResponseWriter) { Send(w, d.Status, d.Text()) }

var (
	contentType = []string{httplimit.BodyProblem.ContentType()}
	noStore     = []string{"no-store"}
)

// Send answers a request with the text of a document.
func Send(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = contentType, noStore // RFC 6585: a 429 must not be stored by a cache
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone away is not worth an error
}
