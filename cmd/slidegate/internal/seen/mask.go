package seen

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// idBytes is the length of the ID of a key. IDs are compared among at most a few million keys.
const idBytes = 10

// idOf returns the ID of a key: the same on all instances that share the secret, and of no use to those who do not have it.
func idOf(secret []byte, policy, key string) string {
	mac := hmac.New(sha256.New, secret)
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(policy)))
	mac.Write(size[:])
	mac.Write([]byte(policy))
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:idBytes])
}

func isID(text string) bool {
	decoded, err := hex.DecodeString(text)
	return err == nil && len(decoded) == idBytes && strings.ToLower(text) == text
}

// mask returns enough of a key for a person who knows it to recognise it, and nothing that does something to a terminal or a page.
func mask(key string) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, key))
	shown := min(len(runes)/4, 2)
	if shown == 0 {
		return "…"
	}
	return string(runes[:shown]) + "…" + string(runes[len(runes)-1:])
}
