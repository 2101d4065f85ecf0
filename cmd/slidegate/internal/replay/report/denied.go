package report

import (
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// trait is a property of denied requests that the log records, with its most frequent values.
type trait struct {
	Name   string // as in data-trait
	Label  string
	Values []replay.Value
}

// requestTraits holds the traits of some requests, for the page.
type requestTraits struct {
	Requests int64
	Traits   []trait
}

// traits returns the traits that the log has.
func traits(p *replay.Profile) (all []trait) {
	if p == nil {
		return nil
	}
	for _, t := range []trait{
		{"path", "Path", p.Paths}, {"agent", "User agent", p.Agents}, {"status", "Status", p.Statuses}, {"method", "Method", p.Methods},
	} {
		if len(t.Values) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// valueText returns a value as it is shown, "(none)" for a missing one.
func valueText(value string, width int) string {
	if value == "" {
		return "(none)"
	}
	return visible(value, width)
}

// textDenied prints the most frequent traits of denied requests.
func textDenied(b *strings.Builder, title string, p *replay.Profile) {
	all := traits(p)
	if len(all) == 0 {
		return
	}
	heading(b, title)
	t := table{left: 2}
	for _, own := range all {
		label := strings.ToLower(own.Label)
		for _, v := range own.Values {
			t.add(label, valueText(v.Value, 2*keyWidth-16), number(v.Requests), percent(v.Requests, p.Requests))
			label = ""
		}
	}
	t.write(b)
}

// textProfiles prints the most frequent traits of the denied requests of each key.
func textProfiles(b *strings.Builder, f *replay.Findings, keys []replay.KeyOutcome) {
	first := true
	for _, k := range keys {
		if words := profileWords(k.Profile); words != "" {
			if first {
				b.WriteString("  Most of their denied requests:\n")
				first = false
			}
			b.WriteString("    " + keyName(f, k.Policy, k.Key) + "\n")
			wrap(b, "      "+words)
		}
	}
}

// profileWords describes the denied requests of a key in one line: "/search 93 %, curl/8.5.0, 200, GET". A value that
// all of them have in common has no share.
func profileWords(p *replay.Profile) string {
	var words []string
	for _, own := range traits(p) {
		first := own.Values[0]
		text := valueText(first.Value, 28)
		if first.Value == "" {
			text = "no " + strings.ToLower(own.Label)
		}
		if first.Requests < p.Requests {
			text += " " + percent(first.Requests, p.Requests)
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}
