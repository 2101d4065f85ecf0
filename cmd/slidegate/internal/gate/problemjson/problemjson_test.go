package problemjson

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSend(t *testing.T) {
	offset := 0
	for want, document := range map[string]Document{
		`{"type":"about:blank","title":"Bad Gateway","status":502,"detail":"down"}`: {Status: http.StatusBadGateway, Detail: "down"},
		`{"type":"about:blank","title":"The request cannot be read","status":400,"detail":"\"a\"","field":"f","offset":0,"line":1,"did_you_mean":"g"}`: {
			Status: http.StatusBadRequest, Title: "The request cannot be read", Detail: `"a"`, Field: "f", Offset: &offset, Line: 1, Meant: "g"},
		`{"type":"https://t.test/","title":"Forbidden","status":403,"detail":""}`:                           {Type: "https://t.test/", Status: http.StatusForbidden},
		`{"type":"about:blank","title":"Forbidden","status":403,"detail":"The client is on a block list."}`: Refused,
	} {
		w := httptest.NewRecorder()
		document.Send(w)
		if w.Code != document.Status || w.Body.String() != want+"\n" {
			t.Errorf("got %d %swant %d %s", w.Code, w.Body, document.Status, want)
		}
		if h := w.Header(); h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got header %v", want, h)
		}
	}
}
