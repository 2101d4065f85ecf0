package report

import (
	"encoding/json"
	"io"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// JSON writes d as one indented object: title, command, sources, and the fields of replay.Findings under their JSON
// names. Times are in microseconds. In a key that is not valid UTF-8, invalid bytes become U+FFFD.
func JSON(w io.Writer, d *Document) error {
	if err := d.check(); err != nil {
		return err
	}
	sources := d.Sources
	if sources == nil {
		sources = []traffic.Source{} // an empty list is easier to consume than null
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Title   string           `json:"title"`
		Command string           `json:"command"`
		Sources []traffic.Source `json:"sources"`
		Notes   []string         `json:"notes,omitempty"`
		Policy  string           `json:"suggested_policy,omitempty"` // the suggestion, as a policy for a file
		*replay.Findings
	}{d.Title, d.Command, sources, d.notes(), d.paste(), d.Findings})
}
