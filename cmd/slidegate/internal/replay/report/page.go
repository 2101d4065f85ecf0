package report

import (
	"cmp"
	"html/template"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// page holds the data of page.html.
type page struct {
	*assets
	*Document
	F        *replay.Findings
	Noun     string // what the quotas count
	Headline string // the limits in words
	Each     string // what each of them applies to
	Choices  string // how the first one counts, if it is the only one
	Verdict  string
	Period   string
	Order    string
	Figures  []figure
	Rows     []compareRow
	Quotas   []quotaRow
	Read     traffic.Source // the sum of all sources
	Advice   string
	Requests int64
	Data     template.JS // the data of the charts
	HasTrail bool

	Interruption string

	Of         string   // the only policy in words, if there is one
	Unmatched  string   // how many requests no policy applies to
	Notices    []string // what the traffic does not show about the policies
	LimitNames []string // set if the limits need names
	Lists      bool     // lists or overrides decided some requests
	Shadows    string

	Top, TopSuggested []topKey
	Paste             string // the suggestion as a policy
	Denied            []trait
	PolicyChanges     []policyChange
	ChangeHeads       []string
	Changes           []pageChange
}

// figure is one of the large numbers at the top.
type figure struct {
	Name  string // as in data-figure, where tests and scripts find it
	Label string
	Raw   int64
	Value string
	Of    string // follows the value, in smaller type
	Note  string // what it means
	Alarm bool   // highlighted
}

func newPage(d *Document) *page {
	f := d.Findings
	p := &page{
		Document: d, F: f, Noun: noun(f), Verdict: verdict(f), Order: orderWords(f.Traffic.Order), Read: sumOfSources(d.Sources),
		Requests: requestsOf(&f.Outcome), Figures: figures(f), Rows: compareRows(f), Quotas: quotaRows(f),
		HasTrail: len(f.Worst) > 0 && len(f.Outcome.Limits) > 0,
		Each:     cmp.Or(d.Per, "key"), Notices: d.notes(), Lists: listsMatter(f), Top: topKeys(f, f.Outcome.TopDenied), Denied: traits(f.Denied),
	}
	if f.Against != nil {
		p.Verdict, p.PolicyChanges, p.ChangeHeads, p.Changes = d.againstVerdict(), policyChanges(f), changeHeads, pageChanges(f)
	}
	if f.Traffic.Requests > 0 {
		p.Period = between(f.Traffic.From, f.Traffic.To) + " (" + span(f.Traffic.To-f.Traffic.From) + ")"
	}
	if f.Interrupted {
		p.Interruption = interruptedWords
	}
	own := ownLimits(&f.Outcome)
	for i := range own {
		if i > 0 {
			p.Headline += ", and "
		}
		p.Headline += rateWords(&own[i], p.Noun)
	}
	if len(f.Policies) > 1 {
		p.Headline, p.Each = "T"+strings.TrimPrefix(policyNames(f), "t"), ""
	} else if len(f.Policies) == 1 {
		p.Of = policyNames(f)
	}
	if len(f.Outcome.Limits) > 1 || len(f.Policies) > 0 {
		p.LimitNames = limitNames(f)
	}
	if slices.ContainsFunc(f.Policies, func(one replay.PolicyOutcome) bool { return one.Shadow }) {
		p.Shadows = shadowWords
	}
	if p.Read.Unmatched > 0 {
		p.Unmatched = unmatchedWords(p.Read.Unmatched)
	}
	if len(f.Outcome.Limits) == 1 {
		p.Choices = choiceWords(f.Outcome.Limits[0].Limit)
	}
	if f.Suggestion != nil {
		p.Advice, p.TopSuggested = suggestionText(f), topKeys(f, f.Suggestion.Outcome.TopDenied)
		p.Paste = d.paste()
	}
	return p
}

// figures returns the headline figures.
func figures(f *replay.Findings) []figure {
	o, requests := &f.Outcome, requestsOf(&f.Outcome)
	all := []figure{
		{Name: "requests", Label: "Requests", Raw: f.Traffic.Requests, Value: number(f.Traffic.Requests),
			Note: "of " + count(f.Traffic.Keys, "key")},
		{Name: "admitted", Label: "Admitted", Raw: o.Admitted, Value: number(o.Admitted), Note: percent(o.Admitted, requests) + " of requests"},
		{Name: "denied", Label: "Denied", Raw: o.Denied, Value: number(o.Denied), Note: percent(o.Denied, requests) + " of requests",
			Alarm: o.Denied > 0},
		{Name: "keys_touched", Label: "Keys touched", Raw: o.KeysTouched, Value: number(o.KeysTouched),
			Note: percent(o.KeysTouched, f.Traffic.Keys) + " of keys, denied at least once"},
	}
	if l := worstLimit(o); l != nil {
		note := "the most units that one key got in any " + windowWords(l)
		all = append(all, figure{Name: "highest", Label: "Highest in any " + windowWords(l), Raw: l.Highest.Units,
			Value: number(l.Highest.Units), Of: "of " + number(l.Quota), Note: note, Alarm: l.Highest.Units > l.Quota})
	}
	lockout := figure{Name: "longest_lockout", Label: "Longest lock-out", Raw: int64(o.Lockout.Length), Value: span(o.Lockout.Length),
		Note: "until the key would be admitted again"}
	if o.Denied == 0 {
		lockout.Value, lockout.Note = "none", "no request was denied"
	}
	return append(all, lockout)
}

// mark marks a cell as the best or the worst of its column.
type mark string

const (
	plain mark = ""
	best  mark = "best"
	worst mark = "worst"
)

// compareRow is one algorithm in the comparison.
type compareRow struct {
	*replay.Outcome
	Highest, Quota                                    int64
	WrongAdmitted, WrongDenied, LiveKeys, StateBytes  int64
	HighestMark, AdmittedMark, DeniedMark, MemoryMark mark
	Asked                                             bool // counts like the replayed limits
}

func compareRows(f *replay.Findings) []compareRow {
	rows := make([]compareRow, len(f.Compare))
	for i := range f.Compare {
		o := &f.Compare[i]
		sum := sumOf(o)
		rows[i] = compareRow{Outcome: o, WrongAdmitted: sum.WrongAdmitted, WrongDenied: sum.WrongDenied,
			LiveKeys: sum.LiveKeys, StateBytes: sum.StateBytes}
		if l := worstLimit(o); l != nil {
			rows[i].Highest, rows[i].Quota = l.Highest.Units, l.Quota
		}
		rows[i].Asked = sameCounting(o, &f.Outcome)
	}
	markColumn(rows, func(r *compareRow) (int64, *mark) {
		if r.Highest <= r.Quota { // within the quota, a lower value is no better
			return 0, &r.HighestMark
		}
		return r.Highest, &r.HighestMark
	})
	markColumn(rows, func(r *compareRow) (int64, *mark) { return r.WrongAdmitted, &r.AdmittedMark })
	markColumn(rows, func(r *compareRow) (int64, *mark) { return r.WrongDenied, &r.DeniedMark })
	markColumn(rows, func(r *compareRow) (int64, *mark) { return r.StateBytes, &r.MemoryMark })
	return rows
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

// markColumn marks the smallest values of a column as best and the largest as worst, unless all are the same.
func markColumn(rows []compareRow, cell func(*compareRow) (int64, *mark)) {
	if len(rows) == 0 {
		return
	}
	least, _ := cell(&rows[0])
	most := least
	for i := range rows {
		v, _ := cell(&rows[i])
		least, most = min(least, v), max(most, v)
	}
	for i := range rows {
		switch v, m := cell(&rows[i]); {
		case least == most:
			*m = plain
		case v == least:
			*m = best
		case v == most:
			*m = worst
		}
	}
}

// quotaRow is one quota of the sweep.
type quotaRow struct {
	replay.SweepPoint
	Requests int64
	Marks    []string
}

func quotaRows(f *replay.Findings) []quotaRow {
	if f.Sweep == nil {
		return nil
	}
	var rows []quotaRow
	for _, p := range f.Sweep.Points {
		rows = append(rows, quotaRow{SweepPoint: p, Requests: p.Admitted + p.Denied, Marks: sweepMarks(f, p.Quota)})
	}
	return rows
}

// drawing is the input of page.js. Times are in milliseconds, as in JavaScript, and keys are in their displayed form.
type drawing struct {
	Noun     string         `json:"noun"`
	Quota    int64          `json:"quota"`
	Window   string         `json:"window"`
	Calendar bool           `json:"calendar,omitempty"` // the window is a period of the calendar
	Timeline drawnTimeline  `json:"timeline"`
	Trails   []replay.Trail `json:"trails,omitempty"`
	Sweep    *drawnSweep    `json:"sweep,omitempty"`
}

type drawnTimeline struct {
	From     float64 `json:"from"`
	Width    float64 `json:"width"`
	Admitted []int64 `json:"admitted"`
	Denied   []int64 `json:"denied"`
}

type drawnSweep struct {
	Keys      int64               `json:"keys"`
	Points    []replay.SweepPoint `json:"points"`
	Knee      int64               `json:"knee,omitempty"` // quotas, 0 for none
	Suggested int64               `json:"suggested,omitempty"`
}

func (p *page) drawing() drawing {
	f := p.F
	t := f.Timeline
	d := drawing{Noun: p.Noun, Timeline: drawnTimeline{From: milliseconds(t.From), Width: milliseconds(t.Width)}}
	for _, b := range t.Buckets {
		d.Timeline.Admitted = append(d.Timeline.Admitted, b.Admitted)
		d.Timeline.Denied = append(d.Timeline.Denied, b.Denied)
	}
	if len(f.Outcome.Limits) > 0 {
		first := &f.Outcome.Limits[0]
		d.Quota, d.Window, d.Calendar = first.Quota, windowWords(first), first.Calendar != ""
	}
	for _, trail := range f.Worst {
		trail.Key = key(trail.Key)
		d.Trails = append(d.Trails, trail)
	}
	if f.Sweep != nil {
		d.Sweep = &drawnSweep{Keys: f.Traffic.Keys, Points: f.Sweep.Points}
		d.Sweep.Knee, _ = kneeQuota(f.Sweep)
		d.Sweep.Suggested, _ = suggestedQuota(f)
	}
	return d
}

func milliseconds(t rule.Micros) float64 { return float64(t) / 1000 }

// topKey is one of the most denied keys, with its policy if there are several.
type topKey struct {
	replay.KeyOutcome
	Of    string
	Words string // describes its denied requests
}

func topKeys(f *replay.Findings, keys []replay.KeyOutcome) (top []topKey) {
	for _, k := range keys {
		of := ""
		if len(f.Policies) > 1 {
			of = visible(k.Policy, keyWidth)
		}
		top = append(top, topKey{k, of, profileWords(k.Profile)})
	}
	return top
}
