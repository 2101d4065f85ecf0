package report

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// The maximum widths of texts from the traffic, in columns.
const (
	keyWidth  = 40 // the width of a key in a table or a sentence
	hintWidth = 400
	lineWidth = 72 // the width of an unreadable line
)

// visible returns text in a form that shows every byte and is safe to print to a terminal: unprintable characters, such
// as control characters, marks that change the direction of writing, and invalid UTF-8, are escaped as in a Go string.
// The middle of a text longer than width columns is cut out, since keys tend to differ at their ends.
func visible(text string, width int) string {
	if text == "" {
		return `""`
	}
	// A long text is cut before it is escaped, so that megabytes take no longer than a few kilobytes.
	if most := 8 * width; len(text) > 2*most {
		head, tail := text[:most], text[len(text)-most:]
		return shorten(escape(head)+"…"+escape(tail), width)
	}
	return shorten(escape(text), width)
}

// escape escapes unprintable characters as in a Go string.
func escape(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, length := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && length == 1:
			b.WriteString(`\x` + strconv.FormatInt(int64(text[0])+0x100, 16)[1:])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[length:]
	}
	return b.String()
}

// escapeLines escapes every line of a text.
func escapeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = escape(lines[i])
	}
	return strings.Join(lines, "\n")
}

// columns returns the width of text in a terminal.
func columns(text string) int { return uniseg.StringWidth(text) }

// shorten shortens text to at most width columns by replacing its middle with an ellipsis.
func shorten(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	front := (width - 1 + 1) / 2
	back := width - 1 - front
	return prefixColumns(text, front) + "…" + suffixColumns(text, back)
}

// prefixColumns returns the longest beginning of text of at most width columns, in whole characters.
func prefixColumns(text string, width int) string {
	used, end, state := 0, 0, -1
	for rest := text; rest != ""; {
		var cluster string
		var wide int
		cluster, rest, wide, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+wide > width {
			break
		}
		used += wide
		end += len(cluster)
	}
	return text[:end]
}

// suffixColumns returns the longest end of text of at most width columns, in whole characters.
func suffixColumns(text string, width int) string {
	left, state := columns(text), -1
	for left > width && text != "" {
		var wide int
		_, text, wide, state = uniseg.FirstGraphemeClusterInString(text, state)
		left -= wide
	}
	return text
}

// key returns a key as it is shown.
func key(k string) string { return visible(k, keyWidth) }
