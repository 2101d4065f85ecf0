package report

import (
	"io"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// barWidth is how many columns the longest bar of a sweep takes.
const barWidth = 20

// Text writes d for a person at a terminal: at most about 100 columns, without colours, times in UTC.
func Text(w io.Writer, d *Document) error {
	if err := d.check(); err != nil {
		return err
	}
	var b strings.Builder
	f := d.Findings
	textHead(&b, d)
	textSources(&b, d.Sources, f.Traffic.Order)
	for _, note := range d.notes() {
		wrap(&b, "  ! "+visible(note, 4*hintWidth))
	}
	textAgainst(&b, d)
	textTraffic(&b, f)
	textOutcome(&b, f)
	textPolicies(&b, f)
	textDenied(&b, "What the denied requests were", f.Denied)
	textTop(&b, "Most denied keys", f, f.Outcome.TopDenied)
	textCompare(&b, f)
	textSweep(&b, f)
	textSuggestion(&b, d)
	_, err := io.WriteString(w, b.String())
	return err
}

// heading begins a section.
func heading(b *strings.Builder, text string) {
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	b.WriteString(text + "\n")
}

func textHead(b *strings.Builder, d *Document) {
	if d.Findings.Interrupted {
		b.WriteString("! " + interruptedWords + "\n")
	}
	if d.Title != "" {
		heading(b, visible(d.Title, hintWidth))
	}
	if d.Command != "" {
		b.WriteString("  $ " + escape(d.Command) + "\n")
	}
}

func textTraffic(b *strings.Builder, f *replay.Findings) {
	heading(b, "The traffic")
	t := table{left: 2}
	t.add("requests", number(f.Traffic.Requests))
	if f.Traffic.Units != f.Traffic.Requests {
		t.add("units", number(f.Traffic.Units))
	}
	t.add("keys", number(f.Traffic.Keys))
	if f.Traffic.Requests > 0 {
		t.add("time", between(f.Traffic.From, f.Traffic.To)+" ("+span(f.Traffic.To-f.Traffic.From)+")")
	}
	t.write(b)
}

func textOutcome(b *strings.Builder, f *replay.Findings) {
	o := &f.Outcome
	heading(b, "What "+subject(f)+" would have done")
	t := table{left: 1}
	t.add("admitted", number(o.Admitted), percent(o.Admitted, requestsOf(o)))
	t.add("denied", number(o.Denied), percent(o.Denied, requestsOf(o)))
	t.addNote("of "+number(f.Traffic.Keys), "keys touched", number(o.KeysTouched), percent(o.KeysTouched, f.Traffic.Keys))
	t.write(b)

	facts := table{left: 2}
	if f.Traffic.Units != f.Traffic.Requests {
		facts.add("units", number(o.UnitsAdmitted)+" admitted, "+number(o.UnitsDenied)+" denied")
	}
	if o.Lockout.Length > 0 || o.Lockout.Key != "" {
		facts.add("longest lock-out", span(o.Lockout.Length)+" ("+keyName(f, o.Lockout.Policy, o.Lockout.Key)+" from "+timestamp(o.Lockout.From)+
			lockoutEnd(o.Lockout)+")")
	}
	for i := range o.Limits {
		name := ""
		if len(o.Limits) > 1 || len(f.Policies) > 0 {
			name = limitName(f, &o.Limits[i])
		}
		limitFacts(&facts, &o.Limits[i], requestsOf(o), name)
	}
	facts.write(b)
}

// limitFacts adds the figures of one limit, with its denials if it has a name.
func limitFacts(t *table, l *replay.LimitOutcome, requests int64, name string) {
	if name != "" {
		t.add(name, "denied "+number(l.Denied)+" ("+percent(l.Denied, requests)+")")
	}
	highest := number(l.Highest.Units) + " of " + number(l.Quota)
	if l.Highest.Units > 0 {
		highest += " (" + key(l.Highest.Key) + " at " + timestamp(l.Highest.At) + ")"
	}
	t.add("highest in any "+windowWords(l), highest)
	t.add("against an exact log", "wrongly admitted "+number(l.WrongAdmitted)+" ("+percent(l.WrongAdmitted, requests)+
		"), wrongly denied "+number(l.WrongDenied)+" ("+percent(l.WrongDenied, requests)+")")
	t.add("state memory", size(l.StateBytes)+" for "+count(l.LiveKeys, "live key"))
}

// textTop prints the most denied keys.
func textTop(b *strings.Builder, title string, f *replay.Findings, keys []replay.KeyOutcome) {
	if len(keys) == 0 {
		return
	}
	heading(b, title)
	t := table{left: 1}
	t.add("key", "requests", "denied", "%", "longest lock-out")
	for _, k := range keys {
		t.add(keyName(f, k.Policy, k.Key), number(k.Requests), number(k.Denied), percent(k.Denied, k.Requests), span(k.Lockout))
	}
	t.write(b)
	textProfiles(b, f, keys)
}

func textCompare(b *strings.Builder, f *replay.Findings) {
	if len(f.Compare)+len(f.NotCompared) == 0 {
		return
	}
	heading(b, "The same traffic with other algorithms")
	t := table{left: 1}
	t.add("", "admitted", "denied", "keys", "highest/quota", "wrong in", "wrong out", "memory")
	for i := range f.Compare {
		o := &f.Compare[i]
		sum := sumOf(o)
		highest := "-"
		if l := worstLimit(o); l != nil {
			highest = number(l.Highest.Units) + "/" + number(l.Quota)
		}
		t.add(visible(o.Name, 28), number(o.Admitted), number(o.Denied), number(o.KeysTouched), highest,
			number(sum.WrongAdmitted), number(sum.WrongDenied), size(sum.StateBytes))
	}
	if len(f.Compare) > 0 {
		t.write(b)
		wrap(b, "  keys: denied at least once; highest: the most in any window; wrong in, wrong out: admissions and refusals "+
			"that an exact log would have decided the other way; memory: the most at any time, without the keys.")
	}
	for _, n := range f.NotCompared {
		wrap(b, "  Not compared: "+visible(n.Name, keyWidth)+": "+visible(n.Why, hintWidth))
	}
}

// sumOf adds up the figures of the limits of an outcome.
func sumOf(o *replay.Outcome) (sum replay.LimitOutcome) {
	for _, l := range o.Limits {
		sum.WrongAdmitted += l.WrongAdmitted
		sum.WrongDenied += l.WrongDenied
		sum.LiveKeys += l.LiveKeys
		sum.StateBytes += l.StateBytes
	}
	return sum
}

func textSweep(b *strings.Builder, f *replay.Findings) {
	if f.Sweep == nil || len(f.Sweep.Points) == 0 {
		return
	}
	title := "Other quotas"
	if len(f.Outcome.Limits) > 0 {
		title += " " + perWindow(&f.Outcome.Limits[0])
	}
	heading(b, title)
	var most int64
	for _, p := range f.Sweep.Points {
		most = max(most, p.Denied)
	}
	t := table{}
	t.add("quota", "denied", "%", "keys touched", "%")
	for _, p := range f.Sweep.Points {
		note := bar(p.Denied, most)
		if marks := sweepMarks(f, p.Quota); len(marks) > 0 {
			note += strings.Repeat(" ", barWidth-columns(note)) + "  <- " + strings.Join(marks, ", ")
		}
		t.addNote(note, number(p.Quota), number(p.Denied), percent(p.Denied, p.Admitted+p.Denied),
			number(p.KeysTouched), percent(p.KeysTouched, f.Traffic.Keys))
	}
	t.write(b)
	if _, ok := kneeQuota(f.Sweep); ok {
		b.WriteString("  knee: beyond it, a larger quota gains little.\n")
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

func textSuggestion(b *strings.Builder, d *Document) {
	f := d.Findings
	if f.Suggestion == nil {
		return
	}
	heading(b, "Suggestion")
	wrap(b, "  "+suggestionText(f))
	textPaste(b, d)
	textTop(b, "Most denied keys under the suggestion", f, f.Suggestion.Outcome.TopDenied)
}
