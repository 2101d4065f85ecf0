package policy

import (
	"crypto/sha256"
	"encoding/hex"
)

// hashMark precedes a hash, so that it is not mistaken for a secret that looks like one.
const hashMark = "sha256:"

// HashSecret returns a key for a secret, from which the secret cannot be recovered. The empty string stays empty.
func HashSecret(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	var room [len(hashMark) + 32]byte
	return string(hex.AppendEncode(append(room[:0], hashMark...), sum[:16]))
}
