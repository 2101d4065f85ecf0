package traffic

import "github.com/slidegate/slidegate/rule"

// Line is one recorded request: its time, key and cost. Its bytes are valid until the next call of Next on its source.
type Line struct {
	At    rule.Micros // since the Unix epoch
	Key   []byte      // what is limited
	Cost  int64       // units, 0 or more
	Time  []byte      // At as a JSON value, as in the input: 1767643391854 or "2026-11-15T06:48:34Z"
	About Details     // other fields of the request
	// Parts has one element per policy that applies to the request, if policies are replayed; Key and Cost are then those
	// of the first.
	Parts []Part
}

// Details holds fields of a request other than its key and cost. Fields that the log does not have are nil.
type Details struct {
	Method, Path, Agent, Status []byte
}

// Part is a request under one policy.
type Part struct {
	Group int // the index in the groups of the policies
	Key   []byte
	Cost  int64
}

// Lines is traffic that can be read once, from its beginning to io.EOF.
type Lines interface {
	// Next fills line with the next request. It returns io.EOF after the last one.
	Next(line *Line) error
}

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
