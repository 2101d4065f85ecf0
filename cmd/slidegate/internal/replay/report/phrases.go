package report

import (
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
)

// interruptedWords is shown at the top if the traffic was not read to its end.
const interruptedWords = "The traffic was not read to its end. All figures cover only the part that was read."

// noun returns what a quota counts in this traffic: requests, or units if the two differ in number.
func noun(f *replay.Findings) string {
	if f.Traffic.Units != f.Traffic.Requests {
		return "unit"
	}
	return "request"
}

// perWindow formats the window of a limit as a rate: "per minute", "per 1m 30s", "per calendar month".
func perWindow(l *replay.LimitOutcome) string {
	if l.Calendar != "" {
		return "per " + windowWords(l)
	}
	switch l.Window {
	case 1e6:
		return "per second"
	case 60e6:
		return "per minute"
	case 3600e6:
		return "per hour"
	case 24 * 3600e6:
		return "per day"
	case 7 * 24 * 3600e6:
		return "per week"
	}
	return "per " + span(l.Window)
}

// windowWords formats the window of a limit: "1m", "calendar month".
func windowWords(l *replay.LimitOutcome) string {
	if l.Calendar != "" {
		return "calendar " + l.Calendar
	}
	return span(l.Window)
}

// rateWords formats the quota and window of a limit: "100 requests per minute".
func rateWords(l *replay.LimitOutcome, noun string) string {
	return count(l.Quota, noun) + " " + perWindow(l)
}

// choiceWords describes how a limit counts: "sliding window of 6 segments, overlap whole". It is empty for an invalid
// limit.
func choiceWords(text string) string {
	l, err := slidegate.ParseLimit(text)
	if err != nil {
		return ""
	}
	bound, err := adapter.Bind("", l)
	if err != nil {
		return ""
	}
	words := strings.ReplaceAll(bound.Rule().Algorithm.String(), "-", " ")
	if bound.Rule().Algorithm == rule.DefaultAlgorithm {
		words = "hard cap"
	}
	if l.Segments > 1 {
		words += " of " + count(int64(l.Segments), "segment")
	}
	if l.Burst != 0 {
		words += " with bursts of " + number(l.Burst)
	}
	if l.Calendar != 0 {
		words += " by the calendar in " + bound.Rule().Zone
	}
	if l.Overlap != rule.OverlapUp {
		words += ", overlap " + l.Overlap.String()
	}
	if l.Anchor != rule.AnchorClock {
		words += ", anchor " + l.Anchor.String()
	}
	if l.CountRefused {
		words += ", refused requests count"
	}
	return words
}

// limitTexts lists the limits of an outcome: "10/1s and 1000/1h".
func limitTexts(o *replay.Outcome) string {
	texts := make([]string, len(o.Limits))
	for i, l := range o.Limits {
		texts[i] = visible(l.Limit, 2*keyWidth)
	}
	return strings.Join(texts, " and ")
}

// worstLimit returns the limit that was exceeded the most, or came closest to being exceeded; nil if there is none.
func worstLimit(o *replay.Outcome) *replay.LimitOutcome {
	var worst *replay.LimitOutcome
	for i := range o.Limits {
		l := &o.Limits[i]
		if worst == nil || ratio(l) > ratio(worst) {
			worst = l
		}
	}
	return worst
}

func ratio(l *replay.LimitOutcome) float64 {
	if l.Quota <= 0 {
		return 0
	}
	return float64(l.Highest.Units) / float64(l.Quota)
}

// requestsOf returns how many requests an outcome decided.
func requestsOf(o *replay.Outcome) int64 { return o.Admitted + o.Refused }

// verdict describes in a sentence or two what the limits would have done.
func verdict(f *replay.Findings) string {
	o := &f.Outcome
	subject := "This limit"
	switch {
	case len(f.Policies) == 1:
		subject = "This policy"
	case len(f.Policies) > 1:
		subject = "These policies"
	case len(o.Limits) > 1:
		subject = "These limits"
	}
	if requestsOf(o) == 0 {
		return "There were no requests to decide."
	}
	if o.Refused == 0 {
		return subject + " would have refused nothing: all " + count(requestsOf(o), "request") + " of " +
			count(f.Traffic.Keys, "key") + " would have been admitted."
	}
	return subject + " would have refused " + number(o.Refused) + " of " + count(requestsOf(o), "request") + " (" +
		percent(o.Refused, requestsOf(o)) + ") and touched " + number(o.KeysTouched) + " of " +
		count(f.Traffic.Keys, "key") + " (" + percent(o.KeysTouched, f.Traffic.Keys) + "). " + excess(o)
}

// excess describes how well the limits kept to their quotas.
func excess(o *replay.Outcome) string {
	l := worstLimit(o)
	if l == nil {
		return ""
	}
	if l.Highest.Units <= l.Quota {
		return "No key ever got more than its quota in any window."
	}
	return "At worst, one key got " + number(l.Highest.Units) + " units within " + windowWords(l) + ", " +
		times(l.Highest.Units, l.Quota) + " the quota of " + number(l.Quota) + "." + exactHint(l)
}

// exactHint names the limit to use in place of a sliding window that exceeded its quota.
func exactHint(l *replay.LimitOutcome) string {
	limit, err := slidegate.ParseLimit(l.Limit)
	if err != nil {
		return ""
	}
	bound, err := adapter.Bind("", limit)
	if err != nil || bound.Rule().Algorithm != rule.SlidingWindow {
		return ""
	}
	capped := slidegate.Limit{Quota: limit.Quota, Window: limit.Window}
	if adapter.Check(capped) != nil { // a window that does not divide into parts
		return ""
	}
	return " This window weighs its oldest part; " + capped.String() + " never exceeds its quota."
}

// suggestionText describes the suggestion and its effect.
func suggestionText(f *replay.Findings) string {
	s := f.Suggestion
	o := &s.Outcome
	name := limitTexts(o)
	text := "The smallest quota that touches at most " + plainPercent(s.Percent) + " of the keys is " + name + ": it would have refused "
	if o.Refused == 0 {
		return text + "nothing."
	}
	return text + count(o.Refused, "request") + " (" + percent(o.Refused, requestsOf(o)) + ") of " +
		count(o.KeysTouched, "key") + " (" + percent(o.KeysTouched, f.Traffic.Keys) + ")."
}

// kneeQuota returns the quota at the sweep's knee, and whether there is one.
func kneeQuota(s *replay.Sweep) (int64, bool) {
	if s == nil || s.Knee < 0 || s.Knee >= len(s.Points) {
		return 0, false
	}
	return s.Points[s.Knee].Quota, true
}

// suggestedQuota returns the suggested quota, and whether there is one.
func suggestedQuota(f *replay.Findings) (int64, bool) {
	if f.Suggestion == nil || len(f.Suggestion.Outcome.Limits) == 0 {
		return 0, false
	}
	return f.Suggestion.Outcome.Limits[0].Quota, true
}

// sweepMarks returns the marks of a quota of the sweep: "chosen", "knee", "suggested".
func sweepMarks(f *replay.Findings, quota int64) []string {
	var marks []string
	if len(f.Outcome.Limits) > 0 && f.Outcome.Limits[0].Quota == quota {
		marks = append(marks, "chosen")
	}
	if knee, ok := kneeQuota(f.Sweep); ok && knee == quota {
		marks = append(marks, "knee")
	}
	if q, ok := suggestedQuota(f); ok && q == quota {
		marks = append(marks, "suggested")
	}
	return marks
}

// between formats a period of time: "2026-11-14 00:00:00 to 23:59:59 UTC".
func between(from, to rule.Micros) string {
	end := timestamp(to)
	if day := time.DateOnly; from.Time().UTC().Format(day) == to.Time().UTC().Format(day) {
		end = end[len(day)+1:]
	}
	return timestamp(from) + " to " + end + " UTC"
}

// orderWords describes how far the traffic was out of order.
func orderWords(o replay.Order) string {
	if o.OutOfOrder == 0 {
		return "All requests were in order of time."
	}
	text := count(o.OutOfOrder, "request") + " out of order, by up to " + span(o.Furthest) + "; "
	if o.TooLate == 0 {
		return text + "all were sorted."
	}
	return text + number(o.TooLate) + " came too late to be sorted."
}

// policyNames lists the policies: "the policy login", "the policies api, login and search".
func policyNames(f *replay.Findings) string {
	names := make([]string, len(f.Policies))
	for i := range f.Policies {
		names[i] = visible(f.Policies[i].Name, keyWidth)
	}
	last := len(names) - 1
	if last == 0 {
		return "the policy " + names[0]
	}
	return "the policies " + strings.Join(names[:last], ", ") + " and " + names[last]
}

// subject returns the subject of a report: "10/1s and 1000/1h", or the names of the policies.
func subject(f *replay.Findings) string {
	if len(f.Policies) > 0 {
		return policyNames(f)
	}
	return limitTexts(&f.Outcome)
}

// limitName names a limit among several: "100/1m", "login: 3/1h", "api (override team-*): 500/1m".
func limitName(f *replay.Findings, l *replay.LimitOutcome) string {
	var name string
	if len(f.Policies) > 1 {
		name = visible(l.Policy, keyWidth)
	}
	switch {
	case l.Override != "" && name == "":
		name = "override " + key(l.Override)
	case l.Override != "":
		name += " (override " + key(l.Override) + ")"
	case l.Plan != "" && name == "":
		name = "plan " + key(l.Plan)
	case l.Plan != "":
		name += " (plan " + key(l.Plan) + ")"
	}
	if l.Shadow {
		name += " (shadow)"
	}
	if name != "" {
		name += ": "
	}
	return name + visible(l.Limit, keyWidth)
}

// ownLimits returns the limits of keys without an override, for requests without a plan.
func ownLimits(o *replay.Outcome) (own []replay.LimitOutcome) {
	for _, l := range o.Limits {
		if l.Override == "" && l.Plan == "" {
			own = append(own, l)
		}
	}
	return own
}

// keyName returns a key as it is shown, with its policy if there are several.
func keyName(f *replay.Findings, policy, name string) string {
	if policy != "" && (len(f.Policies) > 1 || f.Against != nil && len(f.Against.Policies) > 1) {
		return visible(policy, keyWidth/2) + ": " + key(name)
	}
	return key(name)
}

func keyCell(f *replay.Findings, policy, name string) cell {
	return cell{Text: keyName(f, policy, name), Full: visible(name, hintWidth)}
}

// trait is a property of requests that the log records, with its most frequent values.
type trait struct {
	label  string
	values []replay.Value
}

// traits returns the traits that the log has.
func traits(p *replay.Profile) (all []trait) {
	if p == nil {
		return nil
	}
	for _, t := range []trait{{"path", p.Paths}, {"user agent", p.Agents}, {"status", p.Statuses}, {"method", p.Methods}} {
		if len(t.values) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// valueCell shows the value of a trait, "(none)" for a missing one.
func valueCell(value string) cell {
	if value == "" {
		return textCell("(none)")
	}
	return nameCell(value, 2*keyWidth-16)
}

// profileWords describes some requests in one line: "/search 93 %, curl/8.5.0, 200, GET". A value that all of them
// have in common has no share.
func profileWords(p *replay.Profile) string {
	var words []string
	for _, own := range traits(p) {
		first := own.values[0]
		text := "no " + own.label
		if first.Value != "" {
			text = visible(first.Value, 28)
		}
		if first.Requests < p.Requests {
			text += " " + percent(first.Requests, p.Requests)
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// sameCounting reports whether the limits of two outcomes count in the same way.
func sameCounting(a, b *replay.Outcome) bool {
	if len(a.Limits) != len(b.Limits) || len(a.Limits) == 0 {
		return false
	}
	for i := range a.Limits {
		if a.Limits[i].Quota != b.Limits[i].Quota || choiceWords(a.Limits[i].Limit) != choiceWords(b.Limits[i].Limit) {
			return false
		}
	}
	return true
}
