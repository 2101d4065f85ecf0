// Package report renders what a replay found: as text for a terminal, as JSON and CSV for other programs, and as one
// HTML page that needs no network. All four say the same numbers; none of them computes anything that the findings do
// not hold. Keys come from logs that strangers write to, so every form escapes them for where they end up.
package report

import (
	"errors"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// Document is what is reported. Findings is required, the rest may be empty. It is only read, so that several goroutines
// may render the same one.
type Document struct {
	Title         string           // what was replayed, in the reader's words
	Command       string           // the command that would do it again
	Per           string           // who was limited: "address", "user and path"; a key by default
	After, Before string           // what the policies are called, and those that they are compared with
	Findings      *replay.Findings // what was found
	Sources       []traffic.Source // what it was found in
	Suggested     string           // the suggestion as a policy for a file
	Notes         []string         // what the traffic cannot say about the policies, beside what the notes of the sources say
}

// check returns an error if d cannot be rendered.
func (d *Document) check() error {
	if d == nil || d.Findings == nil {
		return errors.New("report: Findings is nil: run the replay first and pass what it returns")
	}
	return nil
}
