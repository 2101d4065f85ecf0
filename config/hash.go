package config

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash returns a short text that is the same for two files that Format writes alike, and different for others. It is for seeing whether
// instances have the same policies. Passwords do not count.
func Hash(f *File) string {
	sum := sha256.Sum256(Format(f))
	return hex.EncodeToString(sum[:8])
}
