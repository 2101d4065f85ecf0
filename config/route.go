package config

import (
	"net/http"
	"strings"

	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// match reads a pattern of requests.
func (r *reader) match(e yamlfile.Field) string {
	text, ok := r.Text(e)
	if !ok {
		return ""
	}
	method, path, hasMethod := strings.Cut(text, " ")
	switch {
	case text == "":
		r.Problems.Addf(e.ValueAt(), "match: the pattern is empty; leave match out for every request")
	case hasMethod && method != strings.ToUpper(method):
		r.Problems.Addf(e.ValueAt(), "match: methods are written in capitals; write %s", wording.Quote(strings.ToUpper(method)+" "+path))
	case !strings.Contains(text, "/"):
		r.Problems.Addf(e.ValueAt(), "match: %s has no path; write %s", wording.Quote(text), wording.Quote(strings.TrimSpace(text+" /")))
	case !isRoute(text):
		r.Problems.Addf(e.ValueAt(), "match: %s is not a pattern of net/http; write a path such as /items/{id} or /static/, "+
			"before it a host if need be, and before that a method and a space: GET example.com/items/", wording.Quote(text))
	}
	return text
}

// isRoute tells whether http.ServeMux takes a pattern. It says so only by panicking. Without a method it also takes paths that
// no request but CONNECT has, such as /a//b, so that those are tried with one.
func isRoute(pattern string) (ok bool) {
	defer func() { ok = recover() == nil }()
	if !strings.Contains(pattern, " ") {
		pattern = http.MethodGet + " " + pattern
	}
	http.NewServeMux().Handle(pattern, http.NotFoundHandler())
	return true
}
