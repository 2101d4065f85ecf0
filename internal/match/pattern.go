package match

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// checkPattern rejects a pattern that http.ServeMux accepts but that matches none of the requests it was written for: a
// wildcard or a regular expression of another program, which ServeMux compares literally, or a part of a URL that it never
// sees. A limit that never applies is worse than an error. Such characters can be percent-encoded where they are meant
// literally.
func checkPattern(pattern string) error {
	switch {
	case pattern != strings.TrimSpace(pattern):
		return errors.New("space before or after the pattern; remove it")
	case strings.Contains(pattern, "://"):
		return schemeError(pattern)
	case !strings.Contains(pattern, "/"):
		return noPathError(pattern)
	}
	method, host, path := splitPattern(pattern)
	if err := checkMethod(strings.TrimSpace(method), host+path); err != nil {
		return err
	}
	if err := checkHost(method, host, path); err != nil {
		return err
	}
	return checkPath(method+host, path)
}

// schemeError reports a pattern that is a whole URL. It shows neither a password nor a query.
func schemeError(pattern string) error {
	_, rest, _ := strings.Cut(pattern, "://")
	rest, _, _ = strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	return fmt.Errorf("a pattern is not a URL; write %s, or %s for every host", quoted(CanonicalHost(host)+"/"+path), quoted("/"+path))
}

// noPathError reports a pattern without a slash.
func noPathError(pattern string) error {
	switch {
	case strings.Trim(pattern, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "":
		return fmt.Errorf("%s has no path; write %s", quoted(pattern), quoted(pattern+" /"))
	case strings.Trim(pattern, "*.^$+?()") == "":
		return fmt.Errorf("%s has no path; write / for every request", quoted(pattern))
	}
	return fmt.Errorf("%s has no path; write %s for a path, or %s for a host", quoted(pattern), quoted("/"+pattern), quoted(pattern+"/"))
}

// checkMethod checks the method of a pattern, or "" if there is none; rest is what follows it.
func checkMethod(method, rest string) error {
	switch upper := strings.ToUpper(method); {
	case method == "":
		return nil
	case method == "*" || upper == "ANY" || upper == "ALL":
		return fmt.Errorf("%s is not a method; leave it out for all methods: write %s", quoted(method), quoted(rest))
	case strings.ContainsAny(method, " \t,|/"):
		return fmt.Errorf("%s: a pattern has one method; write a policy for each, or leave it out for all methods: %s", quoted(method), quoted(rest))
	case strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "":
		return fmt.Errorf("%s is not a method; write one such as GET or POST, or leave it out for all methods", quoted(method))
	case method != upper:
		return fmt.Errorf("methods are written in capitals; write %s", quoted(upper+" "+rest))
	}
	return nil
}

// checkHost checks the host of a pattern, or "" if there is none, between method and path.
func checkHost(method, host, path string) error {
	canonical := CanonicalHost(host)
	switch {
	case host == "":
		return nil
	case strings.ContainsAny(host, "^$()|\\?+~"):
		end := strings.LastIndexByte(path[:plainLength(path)], '/') + 1
		return fmt.Errorf("%s: a pattern is not a regular expression; write %s for everything below it", quoted(host), quoted(method+path[:end]))
	case strings.ContainsAny(host, "*{}") || host[0] == '.' && canonical != "":
		return fmt.Errorf("%s: a host has no wildcards; write one host, or leave it out for every host: %s", quoted(host), quoted(method+path))
	case host[0] == '[':
		_, after, _ := strings.Cut(host, "]")
		if addr, err := netip.ParseAddr(strings.Trim(canonical, "[]")); err != nil || !addr.Is6() || after != "" && after[0] != ':' {
			return notHostError(host)
		}
	case strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != "" || canonical == "":
		return notHostError(host)
	case canonical == strings.ToLower(host) && !strings.Contains(host, ".") && canonical != "localhost":
		return fmt.Errorf("%s would be read as a host; write %s for a path, or %s for the host of this name",
			quoted(host), quoted(method+"/"+host+path), quoted(method+host+"."+path))
	}
	if strings.HasSuffix(host, ":") || strings.Count(host, ":") > strings.Count(canonical, ":") {
		return fmt.Errorf("hosts are compared without their port; write %s", quoted(method+canonical+path))
	}
	return nil
}

func notHostError(host string) error {
	return fmt.Errorf("%s is not a host; write a name in ASCII such as api.example.com (xn--... for other letters), or an address, "+
		"optionally after a method and a space", quoted(host))
}

// checkPath checks the path of a pattern; before is the part before the path.
func checkPath(before, path string) error {
	segments := strings.Split(path, "/")[1:]
	for i, segment := range segments {
		if strings.ContainsAny(segment, "{}") {
			if err := checkWildcard(segment, i == len(segments)-1); err != nil {
				return err
			}
			continue
		}
		if at := unusualIndex(segment); at >= 0 {
			return unusualError(before, path, segment, at)
		}
	}
	if clean := cleanPath(path); clean != path {
		return fmt.Errorf("no request has the path %s; write %s", quoted(path), quoted(before+clean))
	}
	return nil
}

// plainLength returns the length of a path before its first segment that is not plain.
func plainLength(path string) int {
	length := 0
	for segment := range strings.SplitAfterSeq(path, "/") {
		if unusualIndex(segment) >= 0 || strings.ContainsAny(segment, "{}") {
			break
		}
		length += len(segment)
	}
	return length
}

// checkWildcard checks a segment with braces in it.
func checkWildcard(segment string, last bool) error {
	name := strings.TrimSuffix(strings.TrimPrefix(segment, "{"), "}")
	whole := len(name) == len(segment)-2
	rest := strings.TrimSuffix(name, "...")
	switch {
	case whole && (isIdentifier(name) || last && (name == "$" || isIdentifier(rest))):
		return nil
	case whole && (name == "$" || isIdentifier(rest)):
		return fmt.Errorf("%s may only end a pattern; write {name} for one segment before its end", quoted(segment))
	case whole:
		return fmt.Errorf("%s is not a wildcard; write {%s} for one segment, {%s...} for all that follows, or {$} for the end of the path",
			quoted(segment), wordIn(name), wordIn(name))
	}
	return fmt.Errorf("%s: a wildcard is a whole segment; write {%s} and nothing else between two slashes", quoted(segment), wordIn(segment[max(0, strings.IndexByte(segment, '{')):]))
}

func isIdentifier(name string) bool {
	return name != "" && wordIn(name) == name && (name[0] < '0' || name[0] > '9')
}

// wordIn returns the first run of letters, digits and _ in a text, for the name of a wildcard.
func wordIn(text string) string {
	word := func(c rune) bool {
		return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_'
	}
	if start := strings.IndexFunc(text, word); start >= 0 {
		text = text[start:]
		if end := strings.IndexFunc(text, func(c rune) bool { return !word(c) }); end >= 0 {
			text = text[:end]
		}
		return text
	}
	return "name"
}

// unusualIndex returns the index of the first character of a segment that has a special meaning in other syntaxes, or that is
// not valid in a path; -1 if there is none. A + counts only where it would repeat something, and a : only where it would begin
// a name: a+b and item:archive are usual.
func unusualIndex(segment string) int {
	for i := 0; i < len(segment); i++ {
		switch c := segment[i]; {
		case c == '%':
			if i+2 >= len(segment) || !isHex(segment[i+1]) || !isHex(segment[i+2]) {
				return i
			}
		case c == '+':
			if i == len(segment)-1 || i > 0 && segment[i-1] == '.' {
				return i
			}
		case c == ':':
			if i == 0 || !isWordByte(segment[i-1]) {
				return i
			}
		case c <= ' ', c == 0x7f, strings.IndexByte("*?#^$()[]|\\<>\"`", c) >= 0:
			return i
		}
	}
	return -1
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// isWordByte reports whether a colon after c is part of a segment, as in item:archive. Bytes of other alphabets are letters.
func isWordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= 0x80
}

// unusualError returns an error that says what to write instead of the character at an index of a segment.
func unusualError(before, path, segment string, at int) error {
	c := segment[at]
	plain, _, _ := strings.Cut(path, string(rune(c))) // the part before it
	below := quoted(before + plain[:strings.LastIndexByte(plain, '/')+1])
	itself := fmt.Sprintf("%%%02X for the character itself", c)
	switch c {
	case '*':
		return fmt.Errorf("* is not a wildcard here; write %s for everything below it, {name} for one whole segment, or %s", below, itself)
	case '?', '#':
		return fmt.Errorf("a pattern has no query or fragment, and matches all of them; write %s, or %s", quoted(before+plain), itself)
	case ':', '<':
		return fmt.Errorf("%s is not a wildcard; write {%s} for one whole segment, or %s", quoted(segment), wordIn(segment[at:]), itself)
	case '%':
		return fmt.Errorf("%% must be followed by two hexadecimal digits; write %s", itself)
	case '^', '$', '(', ')', '[', ']', '|', '\\', '+':
		return fmt.Errorf("%c is compared literally, since a pattern is not a regular expression; write %s for everything below it, "+
			"{name} for one whole segment, or %s", c, below, itself)
	}
	return fmt.Errorf("%q is not valid in a path; write %s", rune(c), itself)
}

// quoted quotes a part of a pattern, and truncates a long one.
func quoted(text string) string {
	const maxBytes = 100
	if len(text) > maxBytes {
		return fmt.Sprintf("%q...", text[:maxBytes])
	}
	return fmt.Sprintf("%q", text)
}

// register registers a pattern with mux. It returns the panic of ServeMux as an error.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%s is not a valid pattern of net/http: %v", quoted(pattern), reason)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}
