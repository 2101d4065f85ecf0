// Package page serves the operators' page to browsers. The page shows what all instances decide, whom they refuse and what is stored
// about one key, and lets an operator rule about it. It is a client of the admin API: it has no data and no rights of its own.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"strings"
)

//go:embed page.html built/page.js built/page.css
var files embed.FS

// policy allows what the page needs: its own files and its own API. Scripts cannot turn text into markup anywhere on the page, so that
// a key that contains markup cannot either.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Routes adds the page and its files to a mux. They contain no secrets, and a browser can load them without a token, which
// the page asks for. Other programs get text at /.
func Routes(mux *http.ServeMux, text http.HandlerFunc) {
	html := serve("page.html", "text/html; charset=utf-8")
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if wantsHTML(r.Header.Get("Accept")) {
			html(w, r)
			return
		}
		text(w, r)
	})
	mux.HandleFunc("GET /page/page.js", serve("built/page.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /page/page.css", serve("built/page.css", "text/css; charset=utf-8"))
}

// wantsHTML reports whether an Accept header names HTML, as those of browsers do. One that accepts anything is a program's.
func wantsHTML(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		if kind, values, err := mime.ParseMediaType(part); err == nil && kind == "text/html" {
			return strings.Trim(values["q"], "0.") != "" || values["q"] == "" // q=0 excludes it
		}
	}
	return false
}

// serve returns a handler for an embedded file. Browsers ask whether it has changed, since another version may be there after a restart.
func serve(name, kind string) http.HandlerFunc {
	content, err := files.ReadFile(name)
	if err != nil {
		panic("page: " + err.Error()) // it is embedded
	}
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(content) // the browser may be gone
	}
}
