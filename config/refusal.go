package config

import (
	"cmp"
	"errors"

	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// refusal reads the texts of refusals.
func (r *reader) refusal(e yamlfile.Field, to *httplimit.Refusal) {
	refusalTable.in(r, e, "a refusal", "refusal: must be a mapping with type, title, detail or status, not %s", to)
}

// refusalText reads one of the texts; with returns a Refusal that has only this one, to check it.
func (r *reader) refusalText(e yamlfile.Field, with func(text string) httplimit.Refusal) string {
	text, ok := r.Text(e)
	switch wrong := reply.Refusal(with(text)).Check(); {
	case !ok:
	case text == "":
		r.Problems.Addf(e.ValueAt(), "%s: is empty; write a text, or leave it out", e.Name)
	case wrong != nil:
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, errors.Unwrap(wrong))
	}
	return text
}

// refusalStatus reads the status of refusals.
func (r *reader) refusalStatus(e yamlfile.Field) int {
	before := len(r.Problems)
	status := r.integer(e)
	if _, ok := reply.Statuses[int(status)]; !ok && len(r.Problems) == before {
		r.Problems.Addf(e.ValueAt(), "status: must be 429, 402 or 403, not %d", status)
	}
	return int(status)
}

// refusalOf returns the texts of a policy's refusals: the policy's own texts, and the file's where the policy has none.
func (f *File) refusalOf(p *Policy) httplimit.Refusal {
	all := &f.Service.Refusal
	return httplimit.Refusal{
		Type:   cmp.Or(p.Refusal.Type, all.Type),
		Title:  cmp.Or(p.Refusal.Title, all.Title),
		Detail: cmp.Or(p.Refusal.Detail, all.Detail),
		Status: cmp.Or(p.Refusal.Status, all.Status),
	}
}

// refusal writes the texts of refusals.
func (w *formatter) refusal(of *httplimit.Refusal) {
	if *of != (httplimit.Refusal{}) {
		w.mapping("refusal", func() { refusalTable.show(w, of) })
	}
}
