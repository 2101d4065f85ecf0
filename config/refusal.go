package config

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/slidegate/slidegate/config/yamlfile"
	"github.com/slidegate/slidegate/httplimit"
)

var refusalFields = []string{"type", "title", "detail"}

// refusal reads the texts of refusals.
func (r *reader) refusal(e yamlfile.Field) (made Refusal) {
	if !yamlfile.IsMapping(e.Value) {
		r.Problems.Addf(e.ValueAt(), "refusal: must be a mapping with type, title or detail, not %s", yamlfile.Describe(e.Value))
		return made
	}
	for _, field := range r.mapping(e.Value, "a refusal", refusalFields) {
		if field.Value == nil {
			continue
		}
		text, ok := r.Text(field)
		one := Refusal{}
		switch field.Name {
		case "type":
			made.Type, one.Type = text, text
		case "title":
			made.Title, one.Title = text, text
		case "detail":
			made.Detail, one.Detail = text, text
		}
		var wrong *httplimit.RefusalError
		switch {
		case !ok:
		case text == "":
			r.Problems.Addf(field.ValueAt(), "%s: is empty; write a text, or leave it out", field.Name)
		case errors.As(one.Check(), &wrong):
			r.Problems.Addf(field.ValueAt(), "%s: %w", field.Name, wrong.Err)
		}
	}
	return made
}

// RefusalOf returns the texts of a policy's refusals: the policy's own texts, and the file's where the policy has none.
func (f *File) RefusalOf(p *Policy) Refusal {
	all := &f.Service.Refusal
	return Refusal{
		Type:   cmp.Or(p.Refusal.Type, all.Type),
		Title:  cmp.Or(p.Refusal.Title, all.Title),
		Detail: cmp.Or(p.Refusal.Detail, all.Detail),
	}
}

// refusal writes the texts of refusals.
func (w *formatter) refusal(depth int, r Refusal) {
	if r == (Refusal{}) {
		w.linef(depth, "# refusal: the default texts")
		return
	}
	w.linef(depth, "refusal:")
	for _, field := range []struct{ name, text string }{{"type", r.Type}, {"title", r.Title}, {"detail", r.Detail}} {
		if field.text != "" {
			w.linef(depth+1, "%s: %s", field.name, strconv.Quote(field.text))
		}
	}
}
