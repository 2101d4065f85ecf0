package traffic

// Source describes what was read from one file, and what was unreadable.
type Source struct {
	Name       string    `json:"name"`
	Format     string    `json:"format"`                // "combined log", "JSON lines", ...
	Packing    string    `json:"packing,omitempty"`     // "gzip" or "zstd"
	Lines      int64     `json:"lines"`                 // all lines that are neither empty nor comments
	Requests   int64     `json:"requests"`              // lines that became requests
	Filtered   int64     `json:"filtered"`              // lines that the filters excluded
	Differing  int64     `json:"-"`                     // lines for which the filters and Options.Match differ
	Unmatched  int64     `json:"unmatched,omitempty"`   // lines that no replayed policy applies to
	Unreadable int64     `json:"unreadable"`            // unreadable lines
	Examples   []BadLine `json:"examples,omitempty"`    // the first few of them
	KeyMissing int64     `json:"key_missing,omitempty"` // requests that lack a field of the key
	Cut        string    `json:"cut,omitempty"`         // why the file is truncated, if it is
	Notes      []string  `json:"notes,omitempty"`       // what the log does not show about the policies, one sentence each
}

// BadLine is an unreadable line.
type BadLine struct {
	Number int64  `json:"number"` // from 1
	Text   string `json:"text"`   // its beginning
	Why    string `json:"why"`
}
