package match

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Servers read some targets in different ways. In //a@b/login, Go sees the path /a@b/login, and programs that treat the target
// as a URL relative to their own see the host b and the path /login: new URL and url.parse of Node, parse_url of PHP, fasthttp.
// They also cut the path at a #, and treat a backslash as a slash. Servers written in Python drop a no-break space at the end, and
// Django and Flask accept post as POST. An application behind this one may be any of them, so a request matches if any reading of it does.

// isPlain reports whether servers agree about the method and the path of a request: almost always, so it must be quick.
func isPlain(r *http.Request) bool {
	if r.URL.RawPath != "" || hasLower(r.Method) {
		return false
	}
	return isPlainPath(r.URL.Path)
}

// isPlainPath reports whether a decoded path has neither a backslash nor an empty segment.
func isPlainPath(text string) bool {
	for i := range len(text) {
		if text[i] == '\\' || text[i] == '/' && i > 0 && text[i-1] == '/' {
			return false
		}
	}
	return true
}

func hasLower(method string) bool {
	for i := range len(method) {
		if 'a' <= method[i] && method[i] <= 'z' {
			return true
		}
	}
	return false
}

// appendReadings appends the index of the pattern that decides about each reading of a request.
func (m *Matcher) appendReadings(to []int, r *http.Request) []int {
	seen, target := *r, *r.URL
	seen.Method, seen.URL = strings.ToUpper(r.Method), &target
	try := func(path, raw, host string) {
		if len(to) > 0 && len(m.patterns) == 1 {
			return // it cannot match more than that
		}
		target.Path, target.RawPath, seen.Host = path, raw, host
		to = m.appendIndex(to, &seen)
	}
	for _, raw := range withoutEnd(rawPath(r.URL)) {
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			continue // a request has been parsed, so this is one that a program has made
		}
		try(decoded, raw, r.Host)
		try(decoded, "", r.Host)
		if host, rest, ok := cutAuthority(raw); ok {
			if path, err := url.PathUnescape(rest); err == nil {
				try(path, rest, r.Host)
				try(path, rest, host)
			}
		}
		slashes := strings.ReplaceAll(decoded, `\`, "/")
		if slashes != decoded {
			try(slashes, "", r.Host)
		}
		if host, rest, ok := cutAuthority(slashes); ok {
			try(rest, "", r.Host)
			try(rest, "", host)
		}
	}
	return to
}

// CanonicalPath returns the path of a URL for use in keys: decoded, without a fragment, with backslashes as slashes, without an
// authority after a leading //, cleaned as http.ServeMux does, and then without a slash at its end and with ASCII letters in lower case,
// since many routers ignore both. Otherwise a client could get a quota of its own for each spelling of a path.
func CanonicalPath(u *url.URL) string {
	text := u.Path
	if u.RawPath != "" || !isPlainPath(text) {
		readings := withoutEnd(rawPath(u))
		if decoded, err := url.PathUnescape(readings[len(readings)-1]); err == nil {
			text = decoded
		}
		text = strings.ReplaceAll(text, `\`, "/")
		if _, rest, ok := cutAuthority(text); ok && rest != "/" { // //login is more likely to be a page than a host
			text = rest
		}
	}
	if text = cleanPath(text); text != "/" {
		text = strings.TrimSuffix(text, "/")
	}
	return Lower(text)
}

// Lower returns a path with its ASCII letters in lower case, as CanonicalPath has them. Other bytes need not be UTF-8.
func Lower(text string) string {
	if !strings.ContainsAny(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return text
	}
	lower := []byte(text)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	return string(lower)
}

// rawPath returns a path as it was sent, as far as that is known.
func rawPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// withoutEnd returns a path as it was sent and, if it is different, without what some servers ignore at its end.
func withoutEnd(raw string) []string {
	short, _, _ := strings.Cut(raw, "#")
	for strings.HasSuffix(short, "\xa0") || strings.HasSuffix(short, "\x85") { // spaces in Latin-1, which is how Python decodes a request line
		short = short[:len(short)-1]
	}
	return slices.Compact([]string{raw, short})
}

// cutAuthority splits a path that a URL parser reads as an authority and a path: //user@host:80/login. Dot segments may precede
// it, because some proxies resolve them, and more slashes, which browsers and Node ignore.
func cutAuthority(text string) (host, rest string, ok bool) {
	start := strings.Index(text, "//")
	if start < 0 || path.Clean(text[:start+1]) != "/" {
		return "", "", false
	}
	authority, rest, _ := strings.Cut(strings.TrimLeft(text[start:], "/"), "/")
	return CanonicalHost(authority[strings.LastIndexByte(authority, '@')+1:]), "/" + rest, true
}

// cleanPath returns a path as http.ServeMux cleans it.
func cleanPath(text string) string {
	if text == "" {
		return "/"
	}
	if text[0] != '/' {
		text = "/" + text
	}
	clean := path.Clean(text)
	if text[len(text)-1] == '/' && clean != "/" {
		clean += "/"
	}
	return clean
}
