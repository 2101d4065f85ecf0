package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/store"
)

// callError returns the error of a call as an error of this package, whose text contains no key. Servers and proxies
// repeat in their errors what they received: such a text is cut, and the original error is then not wrapped. The error wraps what
// it means; see store.ErrDown.
func callError(call *Call) error {
	text := call.Err.Error()
	if plain := withoutKeys(text, call.Keys, replyOf(call.Err) != ""); plain != text {
		return store.Fault(errors.New("redisstore: "+plain), marksOf(call.Err)...)
	}
	return fmt.Errorf("redisstore: %w", fault(call.Err))
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

var (
	refused = []error{store.ErrRefused, store.ErrDown, store.ErrUndone}
	undone  = []error{store.ErrDown, store.ErrUndone}
	busy    = []error{store.ErrBusy, store.ErrUndone}
	moved   = []error{store.ErrUndone}
)

// replyMarks has what the server's error codes mean. With all of these, nothing was carried out: the server checks the first two
// groups before a command runs, and the third before the first write of a script, never after it.
var replyMarks = map[string][]error{
	"NOAUTH": refused, "WRONGPASS": refused, "NOPERM": refused, "DENIED": refused,
	"LOADING": undone, "MASTERDOWN": undone, "CLUSTERDOWN": undone, "BUSY": busy, "TRYAGAIN": busy, "MOVED": moved, "ASK": moved,
	"READONLY": undone, "OOM": undone, "MISCONF": undone, "NOREPLICAS": undone,
}

// textMarks has what other errors mean, by a part of their text: of the server, whose code ERR rueidis leaves out, of rueidis and of
// go-redis.
var textMarks = map[string][]error{
	"max number of clients reached":                          busy,
	"invalid password":                                       refused,
	"Client sent AUTH, but no password is set":               refused,
	"AUTH <password> called without any password":            refused,
	"DB index is out of range":                               refused,
	"invalid DB index":                                       refused,
	"SELECT is not allowed in cluster mode":                  refused,
	"the redis role is not master":                           undone,
	rueidis.ErrNoAddr.Error():                                undone,
	rueidis.ErrNoSlot.Error():                                undone,
	rueidis.ErrClosing.Error():                               {store.ErrDown}, // what was sent before may have been carried out
	"redis: client is closed":                                undone,
	"redis: cluster has no nodes":                            undone,
	"redis: all sentinels specified in configuration are un": undone,
	"redis: connection pool timeout":                         busy,
	"redis: connection pool exhausted":                       busy,
}

// advice has what to do about errors of a server that do not say it.
var advice = map[string]string{
	"NOAUTH":   "the server wants a password: redis://USER:PASSWORD@HOST",
	"READONLY": "the server is a replica; connect to the primary, or to its sentinels",
	"OOM":      "the server's memory is full; raise its maxmemory",
	"MISCONF":  "the server cannot save its data; see its log",
}

// fault returns an error of a client as one that wraps what it means for the store and for the call.
func fault(err error) error {
	marks := marksOf(err)
	if reply := replyOf(err); reply != "" {
		if code, _ := codeOf(reply); advice[code] != "" {
			err = fmt.Errorf("%s (%w)", advice[code], err)
		}
	}
	return store.Fault(store.NetworkFault(err), marks...)
}

// marksOf returns what an error means that does not come from the network.
func marksOf(err error) []error {
	text := err.Error()
	if reply := replyOf(err); reply != "" {
		code, inScript := codeOf(reply)
		if inScript && (code == "NOPERM" || strings.Contains(reply, "The user executing the script can't")) { // since 7.2, and before
			return []error{store.ErrRefused} // the script may have written before it came to a command that the user may not run
		}
		if marks := replyMarks[code]; marks != nil {
			return marks
		}
		text = reply
	}
	for part, marks := range textMarks {
		if strings.Contains(text, part) {
			return marks
		}
	}
	return nil
}

// codeOf returns the code of a server's error, and whether a command of a script caused it. Since version 7 such an error has the
// command's code; before that, it contains the command's error after a minus sign.
func codeOf(reply string) (code string, inScript bool) {
	code, rest, _ := strings.Cut(reply, " ")
	inScript = strings.Contains(rest, "@user_script")
	if inScript && code == "ERR" {
		if _, inner, found := strings.Cut(rest, ": -"); found {
			code, _, _ = strings.Cut(inner, " ")
		}
	}
	return code, inScript
}

// replyOf returns the text of the server's error that err wraps, or "" if err comes from the client or the network.
func replyOf(err error) string {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return reply.Error()
	}
	var other interface { // implemented by errors of go-redis
		error
		RedisError()
	}
	if errors.As(err, &other) {
		return other.Error()
	}
	return ""
}
