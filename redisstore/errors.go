package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// callError returns the error of a call as an error of this package, whose text contains no key. Servers and proxies
// repeat in their errors what they received: such a text is cut, and the original error is then not wrapped.
func callError(call *Call) error {
	text := call.Err.Error()
	if plain := withoutKeys(text, call.Keys, isReply(call.Err)); plain != text {
		return errors.New("redisstore: " + plain)
	}
	return fmt.Errorf("redisstore: %w", call.Err)
}

// isReply reports whether an error is the server's answer, and not an error of the client or the network.
func isReply(err error) bool {
	if _, ok := rueidis.IsRedisErr(err); ok {
		return true
	}
	var other interface{ RedisError() } // implemented by errors of go-redis
	return errors.As(err, &other)
}

const (
	// longestReply is how much of a server's text is kept: more than any error message of Redis.
	longestReply = 200
	// shortestKey is the length of the shortest key that is searched for on its own in a server's text. A shorter one
	// means nothing outside its name.
	shortestKey = 4
)

// withoutKeys returns the text of an error without what it may repeat of the call's keys. A client's own text is only
// searched for whole names: it may contain the server's address, which may also be a key.
func withoutKeys(text string, names []string, reply bool) string {
	if reply {
		text, _, _ = strings.Cut(text, ", with args") // of an unknown command; long arguments are cut, so they cannot be searched for
	}
	for _, name := range names {
		prefix, tag, key := splitName(name)
		// A name may be cut short in the text, but the part before the key is then there.
		if at := strings.Index(text, prefix); at >= 0 {
			text = strings.TrimRight(text[:at], " '\"`") + " (the rest is omitted: it names a key)"
		}
		if reply && (containsPart(text, tag) || containsPart(text, key)) {
			code, _, _ := strings.Cut(text, " ")
			if containsPart(code, tag) || containsPart(code, key) {
				code = "an error"
			}
			return code + " (the rest of the server's text is omitted: it may name a key)"
		}
	}
	if !reply {
		return text
	}
	if len(text) > longestReply {
		text = text[:longestReply] + "..."
	}
	return strings.Map(singleLine, text)
}

// singleLine replaces characters that would begin a new line in a log or a response.
func singleLine(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}

// splitName returns the parts of a key's name as appendName wrote them: before the braces, inside them, and after them.
func splitName(name string) (prefix, tag, key string) {
	prefix, rest, _ := strings.Cut(name, "{")
	tag, key, _ = strings.Cut(rest, "}")
	return prefix, tag, strings.TrimPrefix(key, ":")
}

// containsPart reports whether a text contains a part of a name, escaped or unescaped.
func containsPart(text, part string) bool {
	if len(part) < shortestKey {
		return false
	}
	if strings.Contains(text, part) {
		return true
	}
	raw, err := url.PathUnescape(part)
	return err == nil && len(raw) >= shortestKey && strings.Contains(text, raw)
}
