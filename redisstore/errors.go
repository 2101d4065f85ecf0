package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// callError makes the error of a call one of this package, in whose text there is no key. Servers and proxies repeat in their
// errors what they were sent: such a text is cut, and the error that has it is then not wrapped.
func callError(call *Call) error {
	text := call.Err.Error()
	if plain := withoutKeys(text, call.Keys, isReply(call.Err)); plain != text {
		return errors.New("redisstore: " + plain)
	}
	return fmt.Errorf("redisstore: %w", call.Err)
}

// isReply reports whether an error is what the server answered, and not of the client or of the network.
func isReply(err error) bool {
	if _, ok := rueidis.IsRedisErr(err); ok {
		return true
	}
	var other interface{ RedisError() } // what go-redis has
	return errors.As(err, &other)
}

const (
	// longestReply is how much of a server's text is repeated: more than any sentence that Redis has.
	longestReply = 200
	// shortestKey is the length from which on a key is looked for in a server's text by itself. A shorter one says nothing
	// outside of the name that it is part of.
	shortestKey = 4
)

// withoutKeys returns the text of an error without what it may repeat of the call's keys. A client's own text is only
// searched for whole names: it may have the address of the server, which may be a key as well.
func withoutKeys(text string, names []string, reply bool) string {
	if reply {
		text, _, _ = strings.Cut(text, ", with args") // of a command that is not known; long ones are cut, so they cannot be looked for
	}
	for _, name := range names {
		prefix, tag, key := takeApart(name)
		// A name may be cut short in the text, but what comes before the key is then there.
		if at := strings.Index(text, prefix); at >= 0 {
			text = strings.TrimRight(text[:at], " '\"`") + " (the rest is left out: it names a key)"
		}
		if reply && (repeats(text, tag) || repeats(text, key)) {
			code, _, _ := strings.Cut(text, " ")
			if repeats(code, tag) || repeats(code, key) {
				code = "an error"
			}
			return code + " (the rest of the server's text is left out: it may name a key)"
		}
	}
	if !reply {
		return text
	}
	if len(text) > longestReply {
		text = text[:longestReply] + "..."
	}
	return strings.Map(visible, text)
}

// visible replaces what would begin another line in a log, or in an answer.
func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}

// takeApart returns the parts of a key's name as appendName wrote them: what comes before the brace, what stands in braces,
// and what follows.
func takeApart(name string) (prefix, tag, key string) {
	prefix, rest, _ := strings.Cut(name, "{")
	tag, key, _ = strings.Cut(rest, "}")
	return prefix, tag, strings.TrimPrefix(key, ":")
}

// repeats reports whether a text has a part of a name in it, as it was sent or as the caller wrote it.
func repeats(text, part string) bool {
	if len(part) < shortestKey {
		return false
	}
	if strings.Contains(text, part) {
		return true
	}
	raw, err := url.PathUnescape(part)
	return err == nil && len(raw) >= shortestKey && strings.Contains(text, raw)
}
