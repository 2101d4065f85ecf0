package report

import "strings"

// paste returns the suggested policy with a comment that describes its effect on this traffic, or "" if there is none.
// A replay of the policy on the same traffic gives exactly these figures.
func (d *Document) paste() string {
	if d.Suggested == "" || d.Findings.Suggestion == nil {
		return ""
	}
	o := d.Findings.Suggestion.Effective()
	text := "# It would have denied " + number(o.Denied) + " of " + count(requestsOf(o), "request") + " (" +
		percent(o.Denied, requestsOf(o)) + ") and touched " + number(o.KeysTouched) + " of " + count(d.Findings.Traffic.Keys, "key") + ".\n"
	if d.Title != "" {
		text = "# " + visible(d.Title, hintWidth) + "\n" + text
	}
	return text + d.Suggested
}

// textPaste prints the suggested policy.
func textPaste(b *strings.Builder, d *Document) {
	text := d.paste()
	if text == "" {
		return
	}
	b.WriteString("  As a policy, to paste into a file:\n\n")
	for line := range strings.Lines(text) {
		b.WriteString("    " + escape(strings.TrimSuffix(line, "\n")) + "\n")
	}
}
