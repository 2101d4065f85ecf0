package report

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
)

// CSV writes d as one table with a header: the section, the name of the row, and a column for each figure that some
// section has. A row has the figures of its section; durations are in microseconds.
func CSV(w io.Writer, d *Document) error {
	if err := d.check(); err != nil {
		return err
	}
	header := []string{"section", "name"}
	type record struct {
		section, name string
		figures       []cell
	}
	var records []record
	add := func(section, name string, figures []cell) {
		figures = slices.DeleteFunc(slices.Clone(figures), func(c cell) bool { return c.Figure == "" })
		for _, c := range figures {
			if !slices.Contains(header, c.Figure) {
				header = append(header, c.Figure)
			}
		}
		if len(figures) > 0 {
			records = append(records, record{section, name, figures})
		}
	}
	for _, s := range d.sections() {
		var facts []cell
		for _, f := range s.Facts {
			facts = append(facts, cell{Figure: f.Figure, Raw: f.Raw})
		}
		add(s.ID, "", facts)
		for _, t := range s.Tables {
			for _, r := range t.Rows {
				add(s.ID, csvName(&r), append([]cell{r.Name}, r.Cells...))
			}
		}
	}
	out := csv.NewWriter(w)
	_ = out.Write(header) // Error returns the errors of all writes
	for _, r := range records {
		line := make([]string, len(header))
		line[0], line[1] = r.section, inert(r.name)
		for _, c := range r.figures {
			line[slices.Index(header, c.Figure)] = strconv.FormatInt(c.Raw, 10)
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// csvName returns the name of a row, with the texts that belong to it.
func csvName(r *row) string {
	if r.Name.Figure != "" {
		return ""
	}
	name := r.Name.Text
	for _, c := range r.Cells {
		if c.Figure == "" && c.Whole == 0 && c.Text != "" && c.Text != "-" {
			name = strings.TrimSpace(name + " " + c.Text)
		}
	}
	return name
}

// inert returns text in a form that a spreadsheet does not mistake for a formula: text that begins like a formula is
// prefixed with an apostrophe, which marks it as text.
func inert(text string) string {
	if begin := strings.TrimLeft(text, " \u00a0\u3000"); begin != "" && strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", []rune(begin)[0]) {
		return "'" + text
	}
	return text
}
