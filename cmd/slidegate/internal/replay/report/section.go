package report

import "slices"

// section is a part of a report. Text, page and CSV show the same sections; what a section does not have is left out.
type section struct {
	ID      string   // its name in CSV and on the page
	Title   string   // in words
	Verdict string   // the finding in a sentence
	Facts   []fact   // single figures
	Tables  []table  // figures by name
	Notes   []string // what the columns mean, and what is not in the figures
	Alerts  []string // what is wrong with the input
	Lines   []badLines
	Paste   string // a policy, to paste into a file
	Chart   string // the chart that the page draws with it
	Last    bool   // the page shows it at its end
}

// fact is a figure with a label.
type fact struct {
	Label  string
	Figure string // as in cell
	Raw    int64
	Value  string
	Rest   string // follows the value: what it is a part of
	Alarm  bool   // highlighted
}

// table has one row for each name.
type table struct {
	Heads   []string // the first is that of the names
	Rows    []row
	Texts   int  // how many columns after the name are texts; the others are numbers
	Bars    bool // the text draws the first share of each row as a bar
	Details string
}

// Head returns the heading of a cell.
func (t *table) Head(cell int) string { return t.Heads[cell+1] }

// ShownName returns the name of a row, unless it is that of the row before it.
func (t *table) ShownName(i int) string {
	name := t.Rows[i].Name.Text
	if i > 0 && t.Texts > 0 && t.Rows[i-1].Name.Text == name {
		return ""
	}
	return name
}

// row is a row of a table.
type row struct {
	Name    cell
	Cells   []cell
	Tags    []string // marks the row: "chosen", "knee"
	Details string   // more about the name, in words
}

// cell is a text, or a figure with its raw number.
type cell struct {
	Text        string
	Full        string // if Text is shortened
	Figure      string // the name of the figure in CSV and on the page; empty if there is none
	Raw         int64
	Part, Whole int64 // of a share
	Mark        mark
}

// badLines are the first unreadable lines of a file.
type badLines struct {
	Title string
	Lines [][2]string // the reason and the text
}

// mark marks a cell as the best or the worst of its column.
type mark string

const (
	best  mark = "best"
	worst mark = "worst"
)

func textCell(text string) cell { return cell{Text: text} }

// nameCell shows a text from the traffic, such as a key.
func nameCell(text string, width int) cell {
	return cell{Text: visible(text, width), Full: visible(text, hintWidth)}
}

func numberCell(figure string, n int64) cell { return cell{Text: number(n), Figure: figure, Raw: n} }

func shareCell(part, whole int64) cell {
	return cell{Text: percent(part, whole), Part: part, Whole: max(1, whole)}
}

// isEmpty reports whether there is nothing to show.
func (s *section) isEmpty() bool {
	return s.Verdict == "" && s.Chart == "" && len(s.Facts)+len(s.Notes)+len(s.Alerts)+len(s.Lines) == 0 &&
		!slices.ContainsFunc(s.Tables, func(t table) bool { return len(t.Rows) > 0 })
}

// markColumn marks the smallest values of a column as best and the largest as worst, unless all are the same. A value
// that is no better than least counts as least.
func markColumn(rows []row, column int, least func(row *row) int64) {
	if len(rows) == 0 {
		return
	}
	value := func(r *row) int64 { return max(r.Cells[column].Raw, least(r)) - least(r) }
	low, high := value(&rows[0]), value(&rows[0])
	for i := range rows {
		low, high = min(low, value(&rows[i])), max(high, value(&rows[i]))
	}
	for i := range rows {
		switch v := value(&rows[i]); {
		case low == high:
		case v == low:
			rows[i].Cells[column].Mark = best
		case v == high:
			rows[i].Cells[column].Mark = worst
		}
	}
}
