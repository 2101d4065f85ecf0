package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// csvColumns are the columns of CSV. They are only ever added to, at the end.
var csvColumns = []string{
	"kind", "name", "limit", "quota", "window_us", "requests", "keys", "admitted", "denied", "keys_touched", "highest",
	"wrong_admitted", "wrong_denied", "longest_lockout_us", "live_keys", "state_bytes",
	"policy", "override", "plan",
}

// CSV writes d as a table with a header: one row per limit of the outcome, of each compared algorithm, of the file
// compared with and of the suggestion, and one row per quota of the sweep. An outcome of several limits also has a row
// without a limit, before the others: it has the figures of all limits together, and the others those of each limit. A
// cell that does not apply is empty.
func CSV(w io.Writer, d *Document) error {
	if err := d.check(); err != nil {
		return err
	}
	c := &csvTable{Writer: csv.NewWriter(w), findings: d.Findings}
	_ = c.Write(csvColumns) // the writer keeps an error until it is flushed
	c.outcome("outcome", &d.Findings.Outcome)
	for i := range d.Findings.Compare {
		c.outcome("compare", &d.Findings.Compare[i])
	}
	c.sweep()
	if d.Findings.Against != nil {
		c.outcome("against", &d.Findings.Against.Outcome)
	}
	if d.Findings.Suggestion != nil {
		c.outcome("suggestion", &d.Findings.Suggestion.Outcome)
	}
	c.Flush()
	return c.Error()
}

type csvTable struct {
	*csv.Writer
	findings *replay.Findings
}

// row writes the cells that are set, by column.
func (c *csvTable) row(cells map[string]string) {
	row := make([]string, len(csvColumns))
	for i, column := range csvColumns {
		row[i] = cells[column]
	}
	_ = c.Write(row)
}

func (c *csvTable) outcome(kind string, o *replay.Outcome) {
	if len(o.Limits) != 1 {
		c.row(c.whole(kind, o))
	}
	for i := range o.Limits {
		l := &o.Limits[i]
		cells := c.common(kind, o)
		if len(o.Limits) == 1 {
			cells = c.whole(kind, o)
		}
		cells["limit"] = inert(l.Limit)
		cells["quota"] = decimal(l.Quota)
		cells["window_us"] = decimal(int64(l.Window))
		cells["denied"] = decimal(l.Denied)
		cells["highest"] = decimal(l.Highest.Units)
		cells["wrong_admitted"] = decimal(l.WrongAdmitted)
		cells["wrong_denied"] = decimal(l.WrongDenied)
		cells["live_keys"] = decimal(l.LiveKeys)
		cells["state_bytes"] = decimal(l.StateBytes)
		if len(c.findings.Policies) > 1 {
			cells["policy"] = inert(l.Policy)
		}
		cells["override"], cells["plan"] = inert(l.Override), inert(l.Plan)
		c.row(cells)
	}
}

// common returns the cells that every row of an outcome has.
func (c *csvTable) common(kind string, o *replay.Outcome) map[string]string {
	return map[string]string{
		"kind": kind, "name": inert(o.Name), "requests": decimal(requestsOf(o)), "keys": decimal(c.findings.Traffic.Keys),
	}
}

// whole returns the cells of an outcome that do not belong to a single limit.
func (c *csvTable) whole(kind string, o *replay.Outcome) map[string]string {
	cells := c.common(kind, o)
	cells["admitted"] = decimal(o.Admitted)
	cells["denied"] = decimal(o.Denied)
	cells["keys_touched"] = decimal(o.KeysTouched)
	cells["longest_lockout_us"] = decimal(int64(o.Lockout.Length))
	return cells
}

func (c *csvTable) sweep() {
	if c.findings.Sweep == nil {
		return
	}
	for _, p := range c.findings.Sweep.Points {
		cells := map[string]string{
			"kind": "sweep", "quota": decimal(p.Quota), "requests": decimal(p.Admitted + p.Denied),
			"keys": decimal(c.findings.Traffic.Keys), "admitted": decimal(p.Admitted), "denied": decimal(p.Denied),
			"keys_touched": decimal(p.KeysTouched),
		}
		if limits := c.findings.Outcome.Limits; len(limits) > 0 {
			cells["limit"] = inert(withQuota(limits[0].Limit, p.Quota))
			cells["window_us"] = decimal(int64(limits[0].Window))
		}
		c.row(cells)
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// inert returns text in a form that a spreadsheet does not mistake for a formula: text that begins like a formula is
// prefixed with an apostrophe, which marks it as text.
func inert(text string) string {
	if begin := strings.TrimLeft(text, " \u00a0\u3000"); begin != "" && strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", []rune(begin)[0]) {
		return "'" + text
	}
	return text
}
