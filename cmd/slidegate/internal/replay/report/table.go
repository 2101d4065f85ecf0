package report

import "strings"

// table is a table of texts, printed in columns. The zero value is an empty table.
type table struct {
	left  int // how many leading columns are left-aligned; the others are numbers and right-aligned
	rows  [][]string
	notes []string // the text after each row, not aligned
}

// add appends a row.
func (t *table) add(cells ...string) { t.addNote("", cells...) }

// addNote appends a row with a text after its last column.
func (t *table) addNote(note string, cells ...string) {
	t.rows = append(t.rows, cells)
	t.notes = append(t.notes, note)
}

// write prints the rows, each indented by two columns.
func (t *table) write(b *strings.Builder) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  ")
			blank := strings.Repeat(" ", widths[i]-columns(cell))
			if i < t.left {
				line.WriteString(cell + blank)
			} else {
				line.WriteString(blank + cell)
			}
		}
		if t.notes[n] != "" {
			line.WriteString("  " + t.notes[n])
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// textWidth is how many columns a sentence may take.
const textWidth = 96

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
