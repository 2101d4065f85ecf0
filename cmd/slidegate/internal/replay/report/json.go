package report

import (
	"encoding/json"
	"io"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// JSON writes d as one indented object: title, command, sources, and beside them all that the findings hold, under the
// names that replay.Findings gives them. Times are in microseconds. A key that is not UTF-8 has U+FFFD for its odd bytes.
func JSON(w io.Writer, d *Document) error {
	if err := d.check(); err != nil {
		return err
	}
	sources := d.Sources
	if sources == nil {
		sources = []traffic.Source{} // a list, even an empty one, is easier to read than null
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Title   string           `json:"title"`
		Command string           `json:"command"`
		Sources []traffic.Source `json:"sources"`
		Notes   []string         `json:"notes,omitempty"`
		Policy  string           `json:"suggested_policy,omitempty"` // for a file
		*replay.Findings
	}{d.Title, d.Command, sources, d.notes(), d.paste(), d.Findings})
}
