package errtext

import (
	"crypto/sha256"
	"encoding/hex"
)

// HashKey returns what logs contain instead of a key: the first 16 hexadecimal digits of its SHA-256, the same in every process, so that
// the lines about a known key can be found. It does not hide a key that can be guessed, such as an address.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
