// Package report renders the findings of a replay: as text for a terminal, as JSON and CSV for other programs, and as a
// single HTML page that needs no network. All four show the same numbers, and compute nothing that is not in the
// findings. Keys come from logs that untrusted clients write to, so every format escapes them.
package report

import (
	"errors"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// Document is the content of a report. Findings is required; the other fields are optional. Rendering does not change
// it, so several goroutines may render the same Document.
type Document struct {
	Title         string           // what was replayed, in the user's words
	Command       string           // the command that reproduces it
	Per           string           // what is limited: "address", "user and path"; "" means "key"
	After, Before string           // names of the replayed policies and of those they are compared with
	Findings      *replay.Findings // the result of the replay
	Sources       []traffic.Source // the logs that were read
	Suggested     string           // the suggestion as a policy for a file
}

// check returns an error if d lacks findings.
func (d *Document) check() error {
	if d == nil || d.Findings == nil {
		return errors.New("report: Findings: must not be nil; run the replay first and pass its findings")
	}
	return nil
}
