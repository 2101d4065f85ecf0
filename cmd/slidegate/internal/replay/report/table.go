package report

import "strings"

// table is rows of texts that are printed in columns. Its zero value is an empty one.
type table struct {
	left  int // how many columns, from the first, are set to the left; the others are numbers and set to the right
	rows  [][]string
	notes []string // what stands after each row, not aligned
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

// wrap prints a sentence in lines of at most textWidth columns, all indented as its first one. A word that is longer than
// a line gets a line of its own.
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
