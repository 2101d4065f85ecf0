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
	refusalTable.in(r, e, "a refusal", "refusal: must be a mapping with type, title or detail, not %s", to)
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

// refusalOf returns the texts of a policy's refusals: the policy's own texts, and the file's where the policy has none.
func (f *File) refusalOf(p *Policy) httplimit.Refusal {
	all := &f.Service.Refusal
	return httplimit.Refusal{
		Type:   cmp.Or(p.Refusal.Type, all.Type),
		Title:  cmp.Or(p.Refusal.Title, all.Title),
		Detail: cmp.Or(p.Refusal.Detail, all.Detail),
	}
}

// refusal writes the texts of refusals.
func (w *formatter) refusal(of *httplimit.Refusal) {
	if *of != (httplimit.Refusal{}) {
		w.mapping("refusal", func() { refusalTable.show(w, of) })
	}
}
