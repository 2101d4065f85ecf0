package report

import (
	"cmp"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// after and before return the names of the two files.
func (d *Document) after() string  { return visible(cmp.Or(d.After, "the new file"), keyWidth) }
func (d *Document) before() string { return visible(cmp.Or(d.Before, "the other file"), keyWidth) }

// againstVerdict describes in a sentence how the decisions of the two files differ.
func (d *Document) againstVerdict() string {
	f, a := d.Findings, d.Findings.Against
	all := f.Traffic.Requests
	if a.NewlyDenied.Requests+a.NewlyAdmitted.Requests == 0 {
		return d.after() + " and " + d.before() + " would have decided all " + count(all, "request") + " alike, and denied " +
			number(f.Outcome.Denied) + " (" + percent(f.Outcome.Denied, all) + ")."
	}
	return d.after() + " would have denied " + number(f.Outcome.Denied) + " of " + count(all, "request") + " (" +
		percent(f.Outcome.Denied, all) + "), " + d.before() + " " + number(a.Outcome.Denied) + " (" + percent(a.Outcome.Denied, all) +
		"): " + changeWords(&a.NewlyDenied, "newly denied") + ", and " + changeWords(&a.NewlyAdmitted, "newly admitted") + "."
}

// changeWords describes how many requests, of how many keys, changed.
func changeWords(c *replay.Change, how string) string {
	if c.Requests == 0 {
		return "none " + how
	}
	return number(c.Requests) + " " + how + " (" + count(c.Keys, "key") + ")"
}

// policyChange is the outcome of one policy before and after. It is nil for a file that lacks the policy.
type policyChange struct {
	Name          string
	Before, After *replay.PolicyOutcome
}

// policyChanges pairs the policies of the two files: first those of the new file, in its order, then those that were removed.
func policyChanges(f *replay.Findings) (all []policyChange) {
	indexes := map[string]int{}
	for i := range f.Policies {
		p := &f.Policies[i]
		indexes[p.Name] = len(all)
		all = append(all, policyChange{Name: p.Name, After: p})
	}
	for i := range f.Against.Policies {
		p := &f.Against.Policies[i]
		if at, ok := indexes[p.Name]; ok {
			all[at].Before = p
			continue
		}
		all = append(all, policyChange{Name: p.Name, Before: p})
	}
	return all
}

// cell returns a number of one of the policies, or a dash if the file lacks the policy.
func (c policyChange) cell(p *replay.PolicyOutcome, of func(*replay.PolicyOutcome) int64) string {
	if p == nil {
		return "-"
	}
	return number(of(p))
}

func policyAdmitted(p *replay.PolicyOutcome) int64 { return p.Requests - p.Denied }
func policyDenied(p *replay.PolicyOutcome) int64   { return p.Denied }

// Cells returns the cells of a row: admitted and denied before and after, and the change.
func (c policyChange) Cells() []string {
	return []string{
		c.cell(c.Before, policyAdmitted), c.cell(c.Before, policyDenied), c.cell(c.After, policyAdmitted), c.cell(c.After, policyDenied), c.Change(),
	}
}

// Change returns the difference in denials.
func (c policyChange) Change() string {
	var before, after int64
	if c.Before != nil {
		before = c.Before.Denied
	}
	if c.After != nil {
		after = c.After.Denied
	}
	if after > before {
		return "+" + number(after-before)
	}
	return number(after - before)
}

// changeHeads are the headings of the cells.
var changeHeads = []string{"Admitted before", "Denied before", "Admitted after", "Denied after", "Change"}

// textAgainst prints how two files differ.
func textAgainst(b *strings.Builder, d *Document) {
	a := d.Findings.Against
	if a == nil {
		return
	}
	heading(b, d.after()+" against "+d.before())
	wrap(b, "  "+d.againstVerdict())
	t := table{left: 1}
	heads := []string{"policy"}
	for _, head := range changeHeads {
		heads = append(heads, strings.ToLower(head))
	}
	t.add(heads...)
	for _, c := range policyChanges(d.Findings) {
		t.add(append([]string{visible(c.Name, keyWidth/2)}, c.Cells()...)...)
	}
	b.WriteString("\n")
	t.write(b)
	textChange(b, "Newly denied", d.Findings, &a.NewlyDenied)
	textChange(b, "Newly admitted", d.Findings, &a.NewlyAdmitted)
}

// textChange prints the requests whose decision changed, and their keys.
func textChange(b *strings.Builder, title string, f *replay.Findings, c *replay.Change) {
	if c.Requests == 0 {
		return
	}
	textDenied(b, title+": the requests", c.Profile)
	heading(b, title+": by key")
	t := table{left: 1}
	t.add("key", "requests", "%")
	for _, k := range c.Top {
		t.add(changedKey(f, k.Policy, k.Key), number(k.Requests), percent(k.Requests, c.Requests))
	}
	t.write(b)
}

// changedKey names a key, with its policy if either file has several.
func changedKey(f *replay.Findings, policy, name string) string {
	if len(f.Policies) > 1 || len(f.Against.Policies) > 1 {
		return visible(policy, keyWidth/2) + ": " + key(name)
	}
	return key(name)
}

// pageChange is a change as the page shows it.
type pageChange struct {
	*replay.Change
	Title string
	Keys  []pageChangedKey
}

type pageChangedKey struct {
	replay.KeyChange
	Words string
	Of    string // the policy, if there are several
}

func pageChanges(f *replay.Findings) (all []pageChange) {
	if f.Against == nil {
		return nil
	}
	for _, c := range []pageChange{
		{Change: &f.Against.NewlyDenied, Title: "Newly denied"}, {Change: &f.Against.NewlyAdmitted, Title: "Newly admitted"},
	} {
		if c.Requests == 0 {
			continue
		}
		for _, k := range c.Top {
			own := pageChangedKey{KeyChange: k, Words: profileWords(k.Profile)}
			if len(f.Policies) > 1 || len(f.Against.Policies) > 1 {
				own.Of = visible(k.Policy, keyWidth/2)
			}
			c.Keys = append(c.Keys, own)
		}
		all = append(all, c)
	}
	return all
}
