package report

import (
	"io"
	"slices"
	"strings"
)

const (
	barWidth  = 20 // how many columns the longest bar takes
	textWidth = 96 // how many columns a sentence may take
)

// Text writes d for a person at a terminal: at most about 100 columns, without colours, times in UTC.
func Text(w io.Writer, d *Document) error {
	if err := d.check(); err != nil {
		return err
	}
	var b strings.Builder
	if d.Findings.Interrupted {
		b.WriteString("! " + interruptedWords + "\n\n")
	}
	if d.Title != "" {
		b.WriteString(visible(d.Title, hintWidth) + "\n")
	}
	if d.Command != "" {
		b.WriteString("  $ " + escape(d.Command) + "\n")
	}
	for _, note := range d.notes() {
		wrap(&b, "  ! "+visible(note, 4*hintWidth))
	}
	for _, s := range d.sections() {
		s.writeText(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *section) writeText(b *strings.Builder) {
	if s.Verdict == "" && len(s.Facts)+len(s.Tables)+len(s.Notes) == 0 {
		return // only a chart
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	b.WriteString(s.Title + "\n")
	if s.Verdict != "" {
		wrap(b, "  "+s.Verdict)
	}
	if s.Paste != "" {
		b.WriteString("  As a policy, to paste into a file:\n\n")
		for line := range strings.Lines(escapeLines(s.Paste)) {
			b.WriteString("    " + line)
		}
	}
	var facts [][]string
	for _, f := range s.Facts {
		facts = append(facts, []string{f.Label, strings.TrimSpace(f.Value + " " + f.Rest)})
	}
	writeColumns(b, facts, 2)
	for i := range s.Tables {
		if i > 0 || s.Verdict != "" {
			b.WriteString("\n")
		}
		s.Tables[i].writeText(b)
	}
	for _, note := range s.Notes {
		wrap(b, "  "+note)
	}
	for _, alert := range s.Alerts {
		b.WriteString("  ! " + alert + "\n")
	}
	for _, bad := range s.Lines {
		b.WriteString("  " + bad.Title + ":\n")
		for _, line := range bad.Lines {
			b.WriteString("    " + line[0] + "\n      " + line[1] + "\n")
		}
	}
}

func (t *table) writeText(b *strings.Builder) {
	if len(t.Rows) == 0 {
		return
	}
	rows := [][]string{t.Heads}
	var most int64
	for i := range t.Rows {
		most = max(most, t.Rows[i].firstShare().Part)
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		cells := []string{t.ShownName(i)}
		for _, c := range r.Cells {
			cells = append(cells, c.Text)
		}
		tags := strings.Join(r.Tags, ", ")
		if t.Bars {
			drawn := bar(r.firstShare().Part, most)
			cells = append(cells, drawn+strings.Repeat(" ", barWidth-columns(drawn)))
		}
		if tags != "" {
			cells = append(cells, "<- "+tags)
		}
		rows = append(rows, cells)
	}
	left := 1 + t.Texts
	if t.Rows[0].Name.Figure != "" {
		left = 0 // the names are numbers
	}
	writeColumns(b, rows, left)
	t.writeDetails(b)
}

// writeDetails prints what is known about the names.
func (t *table) writeDetails(b *strings.Builder) {
	first := true
	for i := range t.Rows {
		if t.Rows[i].Details == "" {
			continue
		}
		if first {
			b.WriteString("  " + t.Details + ":\n")
			first = false
		}
		b.WriteString("    " + t.Rows[i].Name.Text + "\n")
		wrap(b, "      "+t.Rows[i].Details)
	}
}

// firstShare returns the first cell of a row that is a share.
func (r *row) firstShare() cell {
	if i := slices.IndexFunc(r.Cells, func(c cell) bool { return c.Whole > 0 }); i >= 0 {
		return r.Cells[i]
	}
	return cell{}
}

// writeColumns prints rows in columns, each row indented by two. The first columns, as many as left, are left-aligned,
// and so is what a row has beyond the first row's columns.
func writeColumns(b *strings.Builder, rows [][]string, left int) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  ")
			blank := strings.Repeat(" ", widths[i]-columns(cell))
			if i < left || i >= len(rows[0]) {
				line.WriteString(cell + blank)
			} else {
				line.WriteString(blank + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// bar draws part of whole as a bar of up to barWidth columns; a positive part is always visible.
func bar(part, whole int64) string {
	if part <= 0 || whole <= 0 {
		return ""
	}
	eighths := max(1, int(8*barWidth*float64(part)/float64(whole)))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string(rune('█' + 8 - rest)) // the blocks of 7/8 to 1/8 follow the full one
	}
	return text
}

// wrap prints a sentence in lines of at most textWidth columns, all indented like the first. A word that is longer than
// a line gets a separate line.
func wrap(b *strings.Builder, text string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && columns(indent)+columns(line)+1+columns(word) > textWidth {
			b.WriteString(indent + line + "\n")
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	b.WriteString(indent + line + "\n")
}
