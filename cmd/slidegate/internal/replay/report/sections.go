package report

import (
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// sections returns the parts of the report, in order.
func (d *Document) sections() []section {
	f := d.Findings
	all := []section{d.readSection()}
	all = append(all, d.againstSections()...)
	all = append(all,
		outcomeSection(f),
		policiesSection(f, sumOfSources(d.Sources).Unmatched),
		timelineSection(f),
		section{ID: "refused_requests", Title: "What the refused requests were", Tables: []table{traitsTable(f.Refused)}},
		section{ID: "top", Title: "Most refused keys", Tables: []table{topTable(f, f.Outcome.TopRefused)}},
		limitsSection(f), compareSection(f), sweepSection(f), d.suggestionSection(),
	)
	return slices.DeleteFunc(all, func(s section) bool { return s.isEmpty() })
}

func timelineSection(f *replay.Findings) section {
	if len(f.Timeline.Buckets) == 0 {
		return section{}
	}
	return section{ID: "timeline", Title: "Over time", Chart: "timeline"}
}

// readSection describes what was read, what could not be read, and whether it was in order.
func (d *Document) readSection() section {
	s := section{ID: "read", Title: "What was read", Last: true}
	t := table{Heads: []string{"from", "format", "lines", "requests", "filtered", "unreadable", "without key"}, Texts: 1}
	add := func(name, format cell, of *traffic.Source) {
		t.Rows = append(t.Rows, row{Name: name, Cells: []cell{
			format, numberCell("lines", of.Lines), numberCell("requests", of.Requests), numberCell("filtered", of.Filtered),
			numberCell("unreadable", of.Unreadable), numberCell("key_missing", of.KeyMissing),
		}})
	}
	for i := range d.Sources {
		of := &d.Sources[i]
		format := of.Format
		if of.Packing != "" {
			format += ", " + of.Packing
		}
		add(nameCell(of.Name, 30), nameCell(format, 21), of)
		if of.Cut != "" {
			s.Alerts = append(s.Alerts, visible(of.Name, keyWidth)+" is truncated: "+visible(of.Cut, hintWidth))
		}
		if len(of.Examples) > 0 {
			s.Lines = append(s.Lines, badLinesOf(of))
		}
	}
	if len(d.Sources) > 1 {
		sum := sumOfSources(d.Sources)
		add(textCell("all "+number(int64(len(d.Sources)))), textCell(""), &sum)
	}
	s.Tables = []table{t}
	if order := d.Findings.Traffic.Order; order.OutOfOrder > 0 {
		s.Notes = []string{orderWords(order)}
	}
	return s
}

func badLinesOf(of *traffic.Source) badLines {
	b := badLines{Title: "Unreadable in " + visible(of.Name, 2*keyWidth)}
	if shown := int64(len(of.Examples)); shown < of.Unreadable {
		b.Title += ", the first " + number(shown) + " of " + number(of.Unreadable)
	}
	for _, line := range of.Examples {
		b.Lines = append(b.Lines, [2]string{"line " + number(line.Number) + ": " + visible(line.Why, lineWidth), visible(line.Text, lineWidth)})
	}
	return b
}

// sumOfSources adds up the counts of all sources.
func sumOfSources(sources []traffic.Source) (sum traffic.Source) {
	for i := range sources {
		sum.Lines += sources[i].Lines
		sum.Requests += sources[i].Requests
		sum.Filtered += sources[i].Filtered
		sum.Unmatched += sources[i].Unmatched
		sum.Unreadable += sources[i].Unreadable
		sum.KeyMissing += sources[i].KeyMissing
	}
	return sum
}

// outcomeSection has the figures of all limits together.
func outcomeSection(f *replay.Findings) section {
	o, requests := &f.Outcome, requestsOf(&f.Outcome)
	s := section{ID: "outcome", Title: "What " + subject(f) + " would have done"}
	if f.Traffic.Requests > 0 {
		s.Facts = append(s.Facts, fact{Label: "time", Value: between(f.Traffic.From, f.Traffic.To), Rest: "(" + span(f.Traffic.To-f.Traffic.From) + ")"})
	}
	s.Facts = append(s.Facts,
		fact{Label: "requests", Figure: "requests", Raw: f.Traffic.Requests, Value: number(f.Traffic.Requests), Rest: "of " + count(f.Traffic.Keys, "key")},
		fact{Label: "admitted", Figure: "admitted", Raw: o.Admitted, Value: number(o.Admitted), Rest: "(" + percent(o.Admitted, requests) + ")"},
		fact{Label: "refused", Figure: "refused", Raw: o.Refused, Value: number(o.Refused), Rest: "(" + percent(o.Refused, requests) + ")", Alarm: o.Refused > 0},
		fact{Label: "keys touched", Figure: "keys_touched", Raw: o.KeysTouched, Value: number(o.KeysTouched), Rest: "(" + percent(o.KeysTouched, f.Traffic.Keys) + ")"})
	if f.Traffic.Units != f.Traffic.Requests {
		s.Facts = append(s.Facts,
			fact{Label: "units admitted", Figure: "units_admitted", Raw: o.UnitsAdmitted, Value: number(o.UnitsAdmitted), Rest: "of " + number(f.Traffic.Units)},
			fact{Label: "units refused", Figure: "units_refused", Raw: o.UnitsRefused, Value: number(o.UnitsRefused), Rest: "of " + number(f.Traffic.Units)})
	}
	if l := worstLimit(o); l != nil {
		s.Facts = append(s.Facts, fact{Label: "highest in any " + windowWords(l), Figure: "highest", Raw: l.Highest.Units,
			Value: number(l.Highest.Units), Rest: "of " + number(l.Quota), Alarm: l.Highest.Units > l.Quota})
	}
	if lock := o.Lockout; lock.Length > 0 || lock.Key != "" {
		rest := "(" + keyName(f, lock.Policy, lock.Key) + " from " + timestamp(lock.From)
		if !lock.Ended {
			rest += "; the traffic ends before it does"
		}
		s.Facts = append(s.Facts, fact{Label: "longest lock-out", Figure: "longest_lockout_us", Raw: int64(lock.Length), Value: span(lock.Length), Rest: rest + ")"})
	}
	return s
}

// policiesSection has the outcome of each policy, if that says more than the totals.
func policiesSection(f *replay.Findings, unmatched int64) section {
	s := section{ID: "policies", Title: "By policy"}
	if unmatched > 0 {
		s.Notes = append(s.Notes, "No replayed policy applies to "+count(unmatched, "request")+"; no figure includes them.")
	}
	lists := slices.ContainsFunc(f.Policies, func(p replay.PolicyOutcome) bool { return p.AllowList+p.BlockList+p.Unlimited+p.Overridden > 0 })
	if len(f.Policies) < 2 && !lists {
		return s
	}
	t := table{Heads: []string{"policy", "requests", "refused", "share"}}
	if lists {
		t.Heads = append(t.Heads, "block list", "allow list", "unlimited", "other limits")
	}
	shadow := false
	for _, p := range f.Policies {
		r := row{Name: nameCell(p.Name, keyWidth), Cells: []cell{numberCell("requests", p.Requests), numberCell("refused", p.Refused), shareCell(p.Refused, p.Requests)}}
		if p.Shadow {
			r.Tags, shadow = []string{"shadow"}, true
		}
		if lists {
			r.Cells = append(r.Cells, numberCell("block_list", p.BlockList), numberCell("allow_list", p.AllowList),
				numberCell("unlimited", p.Unlimited), numberCell("overridden", p.Overridden))
		}
		t.Rows = append(t.Rows, r)
	}
	s.Tables = []table{t}
	if shadow {
		s.Notes = append(s.Notes, "A shadow policy refuses nothing: its refusals are counted only here.")
	}
	return s
}

// traitsTable has the most frequent traits of some requests.
func traitsTable(p *replay.Profile) table {
	t := table{Heads: []string{"", "value", "requests", "share"}, Texts: 1}
	for _, own := range traits(p) {
		for _, v := range own.values {
			t.Rows = append(t.Rows, row{Name: textCell(own.label), Cells: []cell{valueCell(v.Value), numberCell("requests", v.Requests), shareCell(v.Requests, p.Requests)}})
		}
	}
	return t
}

// topTable has the most refused keys.
func topTable(f *replay.Findings, keys []replay.KeyOutcome) table {
	t := table{Heads: []string{"key", "requests", "refused", "share", "longest lock-out"}, Details: "Most of their refused requests"}
	for _, k := range keys {
		t.Rows = append(t.Rows, row{Name: keyCell(f, k.Policy, k.Key), Details: profileWords(k.Profile), Cells: []cell{
			numberCell("requests", k.Requests), numberCell("refused", k.Refused), shareCell(k.Refused, k.Requests),
			{Text: span(k.Lockout), Figure: "longest_lockout_us", Raw: int64(k.Lockout)},
		}})
	}
	return t
}

// countingHeads are the headings of tables that compare ways of counting, and countingNotes explain them.
var countingHeads = []string{"refused", "highest/quota", "wrong in", "wrong out", "memory"}

const countingNotes = "highest: the most in any window; wrong in, wrong out: admissions and refusals that an exact log would have " +
	"decided the other way; memory: the most at any time, for live keys, without the keys."

// countingCells are the cells of a way of counting; highest is nil if there is none.
func countingCells(refused int64, highest, sum *replay.LimitOutcome) []cell {
	most := textCell("-")
	if highest != nil {
		most = cell{Text: number(highest.Highest.Units) + "/" + number(highest.Quota), Figure: "highest", Raw: highest.Highest.Units}
	}
	return []cell{
		numberCell("refused", refused), most, numberCell("wrong_admitted", sum.WrongAdmitted), numberCell("wrong_refused", sum.WrongRefused),
		{Text: size(sum.StateBytes), Figure: "state_bytes", Raw: sum.StateBytes},
	}
}

// limitsSection describes how accurate each limit is, and what it costs.
func limitsSection(f *replay.Findings) section {
	s := section{ID: "limits", Title: "How accurate it is, and what it costs", Notes: []string{countingNotes}}
	t := table{Heads: slices.Concat([]string{"limit"}, countingHeads, []string{"live keys"}), Details: "Where the most was admitted"}
	for i := range f.Outcome.Limits {
		l := &f.Outcome.Limits[i]
		r := row{Name: textCell(limitName(f, l)), Cells: append(countingCells(l.Refused, l, l), numberCell("live_keys", l.LiveKeys))}
		if l.Highest.Units > 0 {
			r.Details = key(l.Highest.Key) + " at " + timestamp(l.Highest.At)
		}
		t.Rows = append(t.Rows, r)
	}
	if len(t.Rows) == 0 {
		return section{}
	}
	s.Tables = []table{t}
	return s
}

// compareSection has one row for each algorithm.
func compareSection(f *replay.Findings) section {
	s := section{ID: "compare", Title: "The same traffic with other algorithms"}
	t := table{Heads: slices.Concat([]string{"algorithm", "admitted", "keys"}, countingHeads)}
	quotas := map[string]int64{} // within the quota, a lower value is no better
	for i := range f.Compare {
		o := &f.Compare[i]
		var sum replay.LimitOutcome
		for _, l := range o.Limits {
			sum.WrongAdmitted += l.WrongAdmitted
			sum.WrongRefused += l.WrongRefused
			sum.StateBytes += l.StateBytes
		}
		highest := worstLimit(o)
		r := row{Name: nameCell(o.Name, 28)}
		r.Cells = append([]cell{numberCell("admitted", o.Admitted), numberCell("keys_touched", o.KeysTouched)}, countingCells(o.Refused, highest, &sum)...)
		if highest != nil {
			quotas[r.Name.Text] = highest.Quota
		}
		if sameCounting(o, &f.Outcome) {
			r.Tags = []string{"chosen"}
		}
		t.Rows = append(t.Rows, r)
	}
	for column, name := range t.Heads[1:] {
		switch name {
		case "highest/quota":
			markColumn(t.Rows, column, func(r *row) int64 { return quotas[r.Name.Text] })
		case "wrong in", "wrong out", "memory":
			markColumn(t.Rows, column, func(*row) int64 { return 0 })
		}
	}
	s.Tables = []table{t}
	if len(t.Rows) > 0 {
		s.Notes = []string{"keys: touched, that is refused at least once."}
	}
	for _, n := range f.NotCompared {
		s.Notes = append(s.Notes, "Not compared: "+visible(n.Name, keyWidth)+": "+visible(n.Why, hintWidth))
	}
	return s
}

// sweepSection has one row for each quota.
func sweepSection(f *replay.Findings) section {
	if f.Sweep == nil || len(f.Sweep.Points) == 0 {
		return section{}
	}
	s := section{ID: "sweep", Title: "Other quotas", Chart: "sweep"}
	if len(f.Outcome.Limits) > 0 {
		s.Title += " " + perWindow(&f.Outcome.Limits[0])
	}
	t := table{Heads: []string{"quota", "refused", "share", "keys touched", "share"}, Bars: true}
	for _, p := range f.Sweep.Points {
		t.Rows = append(t.Rows, row{Name: numberCell("quota", p.Quota), Tags: sweepMarks(f, p.Quota), Cells: []cell{
			numberCell("refused", p.Refused), shareCell(p.Refused, p.Admitted+p.Refused),
			numberCell("keys_touched", p.KeysTouched), shareCell(p.KeysTouched, f.Traffic.Keys),
		}})
	}
	s.Tables = []table{t}
	if _, ok := kneeQuota(f.Sweep); ok {
		s.Notes = []string{"knee: beyond it, a larger quota gains little."}
	}
	return s
}

func (d *Document) suggestionSection() section {
	f := d.Findings
	if f.Suggestion == nil {
		return section{}
	}
	top := topTable(f, f.Suggestion.Outcome.TopRefused)
	top.Heads[0] = "refused under the suggestion"
	return section{ID: "suggestion", Title: "Suggestion", Verdict: suggestionText(f), Paste: d.paste(), Tables: []table{top}}
}

// notes returns what the traffic does not show about the policies, without duplicates.
func (d *Document) notes() (all []string) {
	for i := range d.Sources {
		for _, note := range d.Sources[i].Notes {
			if !slices.Contains(all, note) {
				all = append(all, note)
			}
		}
	}
	return all
}

// paste returns the suggested policy with a comment that describes its effect on this traffic, or "" if there is none.
// A replay of the policy on the same traffic gives exactly these figures.
func (d *Document) paste() string {
	if d.Suggested == "" || d.Findings.Suggestion == nil {
		return ""
	}
	o := d.Findings.Suggestion.Effective()
	text := "# It would have refused " + number(o.Refused) + " of " + count(requestsOf(o), "request") + " (" +
		percent(o.Refused, requestsOf(o)) + ") and touched " + number(o.KeysTouched) + " of " + count(d.Findings.Traffic.Keys, "key") + ".\n"
	if d.Title != "" {
		text = "# " + visible(d.Title, hintWidth) + "\n" + text
	}
	return text + strings.TrimRight(d.Suggested, "\n") + "\n"
}
