package report

import (
	"cmp"
	"html/template"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/rule"
)

// page holds the data of page.html.
type page struct {
	*assets
	*Document
	Interruption string
	Headline     string // the limits in words
	Each         string // what each of them applies to
	Verdict      string
	Meta         []string // the policy, and how its limit counts
	Notices      []string // what the traffic does not show about the policies
	Figures      []fact
	Sections     []section
	Data         template.JS // the data of the charts
}

func newPage(d *Document) *page {
	f := d.Findings
	p := &page{Document: d, Verdict: verdict(f), Each: cmp.Or(d.Per, "key"), Notices: d.notes()}
	for _, s := range d.sections() {
		if s.ID == "outcome" {
			p.Figures = s.Facts
			continue
		}
		p.Sections = append(p.Sections, s)
	}
	if f.Interrupted {
		p.Interruption = interruptedWords
	}
	own := ownLimits(&f.Outcome)
	for i := range own {
		if i > 0 {
			p.Headline += ", and "
		}
		p.Headline += rateWords(&own[i], noun(f))
	}
	if len(f.Policies) > 1 {
		p.Headline, p.Each = "T"+strings.TrimPrefix(policyNames(f), "t"), ""
	} else if len(f.Policies) == 1 {
		p.Meta = append(p.Meta, policyNames(f))
	}
	if len(f.Outcome.Limits) == 1 {
		p.Meta = append(p.Meta, choiceWords(f.Outcome.Limits[0].Limit))
	}
	return p
}

// drawing is the input of page.js. Times are in milliseconds, as in JavaScript.
type drawing struct {
	Noun     string        `json:"noun"`
	Quota    int64         `json:"quota"`
	Window   string        `json:"window"`
	Timeline drawnTimeline `json:"timeline"`
	Sweep    *drawnSweep   `json:"sweep,omitempty"`
}

type drawnTimeline struct {
	From     float64 `json:"from"`
	Width    float64 `json:"width"`
	Admitted []int64 `json:"admitted"`
	Refused  []int64 `json:"refused"`
}

type drawnSweep struct {
	Keys      int64               `json:"keys"`
	Points    []replay.SweepPoint `json:"points"`
	Knee      int64               `json:"knee,omitempty"` // quotas, 0 for none
	Suggested int64               `json:"suggested,omitempty"`
}

func (p *page) drawing() drawing {
	f := p.Findings
	t := f.Timeline
	d := drawing{Noun: noun(f), Timeline: drawnTimeline{From: milliseconds(t.From), Width: milliseconds(t.Width)}}
	for _, b := range t.Buckets {
		d.Timeline.Admitted = append(d.Timeline.Admitted, b.Admitted)
		d.Timeline.Refused = append(d.Timeline.Refused, b.Refused)
	}
	if len(f.Outcome.Limits) > 0 {
		first := &f.Outcome.Limits[0]
		d.Quota, d.Window = first.Quota, windowWords(first)
	}
	if f.Sweep != nil {
		d.Sweep = &drawnSweep{Keys: f.Traffic.Keys, Points: f.Sweep.Points}
		d.Sweep.Knee, _ = kneeQuota(f.Sweep)
		d.Sweep.Suggested, _ = suggestedQuota(f)
	}
	return d
}

func milliseconds(t rule.Micros) float64 { return float64(t) / 1000 }
