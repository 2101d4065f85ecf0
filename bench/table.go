package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is what a scenario prints.
type table struct {
	title   string
	columns []string
	names   int // number of left-aligned columns; 0 means 1
	rows    [][]string
	notes   []string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }
func (t *table) note(format string, values ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, values...))
}

// widths returns how wide each column must be.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for _, row := range append([][]string{t.columns}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// print writes the table: aligned text, or Markdown to be pasted into a document.
func (t *table) print(w io.Writer, markdown bool) {
	widths := t.widths()
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
	}
	if markdown {
		fmt.Fprintf(w, "\n### %s\n\n", t.title)
		for i := max(1, t.names); i < len(rule); i++ { // A trailing colon aligns the column to the right.
			rule[i] = strings.Repeat("-", max(1, widths[i]-1)) + ":"
		}
	} else {
		fmt.Fprintf(w, "\n%s\n\n", t.title)
	}
	for _, row := range append([][]string{t.columns, rule}, t.rows...) {
		fmt.Fprintln(w, t.line(row, widths, markdown))
	}
	if len(t.notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, note := range t.notes {
		fmt.Fprintln(w, note)
	}
}

// line formats one row; missing cells are empty.
func (t *table) line(row []string, widths []int, markdown bool) string {
	padded := make([]string, len(widths))
	for i, width := range widths {
		if i < len(row) {
			padded[i] = row[i]
		}
		padded[i] = pad(padded[i], width, i >= max(1, t.names))
	}
	if markdown {
		return "| " + strings.Join(padded, " | ") + " |"
	}
	return strings.TrimRight(strings.Join(padded, "  "), " ")
}

// pad pads a cell to its column's width, on the left of numbers and on the right of names.
func pad(cell string, width int, right bool) string {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell)))
	if right {
		return fill + cell
	}
	return cell + fill
}

// count formats a number in the shortest way that is exact enough.
func count(n int) string {
	switch {
	case n >= 1_000_000 && n%100_000 == 0:
		return fmt.Sprintf("%gM", float64(n)/1e6)
	case n >= 1_000 && n%100 == 0:
		return fmt.Sprintf("%gk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// nanos formats the time of an operation.
func nanos(ns float64) string {
	if ns < 10 {
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}

// ratio formats a value as a multiple of a reference.
func ratio(value, reference float64) string {
	if reference <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", value/reference)
}
