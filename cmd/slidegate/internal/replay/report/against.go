package report

import (
	"cmp"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// after and before return the names of the two files.
func (d *Document) after() string  { return visible(cmp.Or(d.After, "the new file"), keyWidth) }
func (d *Document) before() string { return visible(cmp.Or(d.Before, "the other file"), keyWidth) }

// againstSections describe how the decisions of two files differ.
func (d *Document) againstSections() (all []section) {
	f, a := d.Findings, d.Findings.Against
	if a == nil {
		return nil
	}
	first := section{ID: "against", Title: d.after() + " against " + d.before(), Verdict: d.againstVerdict(), Tables: []table{changesTable(f)}}
	if len(f.Policies)+len(a.Policies) > 2 {
		first.Notes = []string{"Each policy counts its own refusals, so a request that two policies refuse is counted for both."}
	}
	all = append(all, first)
	for _, change := range []struct {
		id, title string
		*replay.Change
	}{{"newly_refused", "Newly refused", &a.NewlyRefused}, {"newly_admitted", "Newly admitted", &a.NewlyAdmitted}} {
		keys := table{Heads: []string{"key", "requests", "share"}, Details: "Most of these requests"}
		for _, k := range change.Top {
			keys.Rows = append(keys.Rows, row{Name: keyCell(f, k.Policy, k.Key), Details: profileWords(k.Profile),
				Cells: []cell{numberCell("requests", k.Requests), shareCell(k.Requests, change.Requests)}})
		}
		all = append(all, section{ID: change.id, Title: change.title, Tables: []table{traitsTable(change.Profile), keys}})
	}
	return all
}

// againstVerdict describes in a sentence how the decisions of the two files differ.
func (d *Document) againstVerdict() string {
	f, a := d.Findings, d.Findings.Against
	all := f.Traffic.Requests
	if a.NewlyRefused.Requests+a.NewlyAdmitted.Requests == 0 {
		return d.after() + " and " + d.before() + " would have decided all " + count(all, "request") + " alike, and refused " +
			number(f.Outcome.Refused) + " (" + percent(f.Outcome.Refused, all) + ")."
	}
	return d.after() + " would have refused " + number(f.Outcome.Refused) + " of " + count(all, "request") + " (" +
		percent(f.Outcome.Refused, all) + "), " + d.before() + " " + number(a.Outcome.Refused) + " (" + percent(a.Outcome.Refused, all) +
		"): " + changeWords(&a.NewlyRefused, "newly refused") + ", and " + changeWords(&a.NewlyAdmitted, "newly admitted") + "."
}

// changeWords describes how many requests, of how many keys, changed.
func changeWords(c *replay.Change, how string) string {
	if c.Requests == 0 {
		return "none " + how
	}
	return number(c.Requests) + " " + how + " (" + count(c.Keys, "key") + ")"
}

// changesTable has the policies of both files: first those of the new file, in its order, then those that were removed.
func changesTable(f *replay.Findings) table {
	t := table{Heads: []string{"policy", "admitted before", "refused before", "admitted after", "refused after", "change"}}
	before, known := map[string]*replay.PolicyOutcome{}, map[string]bool{}
	for i := range f.Against.Policies {
		before[f.Against.Policies[i].Name] = &f.Against.Policies[i]
	}
	add := func(name string, old, new *replay.PolicyOutcome) {
		cells := append(decidedCells(old, "before"), decidedCells(new, "after")...)
		change := cells[3].Raw - cells[1].Raw
		text := number(change)
		if change > 0 {
			text = "+" + text
		}
		t.Rows = append(t.Rows, row{Name: nameCell(name, keyWidth/2), Cells: append(cells, cell{Text: text, Figure: "change", Raw: change})})
		known[name] = true
	}
	for i := range f.Policies {
		add(f.Policies[i].Name, before[f.Policies[i].Name], &f.Policies[i])
	}
	for i := range f.Against.Policies {
		if p := &f.Against.Policies[i]; !known[p.Name] {
			add(p.Name, p, nil)
		}
	}
	return t
}

// decidedCells returns what a policy admitted and refused; p is nil for a file that lacks the policy.
func decidedCells(p *replay.PolicyOutcome, when string) []cell {
	if p == nil {
		return []cell{textCell("-"), textCell("-")}
	}
	return []cell{numberCell("admitted_"+when, p.Requests-p.Refused), numberCell("refused_"+when, p.Refused)}
}
