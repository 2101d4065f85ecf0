package traffic

// Source is what was read from one file, and what could not be.
type Source struct {
	Name       string    `json:"name"`
	Format     string    `json:"format"`                // "combined log", "JSON lines", ...
	Packing    string    `json:"packing,omitempty"`     // "gzip" or "zstd"
	Lines      int64     `json:"lines"`                 // all lines that are neither empty nor comments
	Requests   int64     `json:"requests"`              // lines that became requests
	Filtered   int64     `json:"filtered"`              // lines that the filters left out
	Differing  int64     `json:"-"`                     // lines that the filters and Options.Match do not agree about
	Unmatched  int64     `json:"unmatched,omitempty"`   // lines that face no policy that is replayed
	Unreadable int64     `json:"unreadable"`            // lines that could not be read
	Examples   []BadLine `json:"examples,omitempty"`    // the first few of those
	KeyMissing int64     `json:"key_missing,omitempty"` // requests in which a field of the key was missing
	Cut        string    `json:"cut,omitempty"`         // why the file ends before its end, if it does
	Notes      []string  `json:"notes,omitempty"`       // what the log cannot say about the policies, one sentence each
}

// BadLine is a line that could not be read.
type BadLine struct {
	Number int64  `json:"number"` // from 1
	Text   string `json:"text"`   // its beginning
	Why    string `json:"why"`
}
