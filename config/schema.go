package config

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (2020-12) of the files that Parse reads, for editors that complete and check while somebody
// writes. It is more lenient than Parse, which alone knows whether a limit makes sense.
func Schema() []byte { return slices.Clone(schema) }
