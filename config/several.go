package config

import (
	"errors"
	"slices"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// input is the text of a file, and its name in errors.
type input struct {
	name string
	text []byte
}

// parse reads several files as one.
func parse(opts Options, inputs ...input) (*File, error) {
	whole := &File{places: map[string]place{}}
	readers := make([]*reader, len(inputs))
	for i, in := range inputs {
		readers[i] = &reader{name: in.name, opts: opts, file: whole}
		readers[i].read(in.text)
	}
	checkHasPolicies(whole, readers)
	_, hasJWT := whole.places["jwt"]
	for _, r := range slices.Clone(readers) {
		whole.Others = append(whole.Others, r.others...)
		readers = append(readers, r.files...)
	}
	var problems []error
	for _, r := range readers {
		r.checkKeys(whole.Service.AddressGroups)
		r.checkClaims(hasJWT)
		if r.chosen.Value != nil {
			whole.Service.Default = r.defaultPolicy(r.chosen, whole.Policies)
		}
		problems = append(problems, r.Problems.Join(r.name))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	for _, r := range readers {
		r.warnExact(whole)
		whole.Warnings = append(whole.Warnings, r.warnings.Errors(r.name)...)
	}
	return whole, nil
}

// place is the position of a field, or of a policy.
type place struct {
	file        string
	name, value yamlfile.Position
}

// put records the place of a field; id is how an options.Error names it, and what how people do. A field that an earlier file
// contains too is an error; duplicates within a file are already reported.
func (r *reader) put(id, what string, e yamlfile.Field) {
	if first, twice := r.file.places[id]; twice {
		r.Problems.Addf(e.At, "%s is given twice; the first is at %s:%d:%d", what, first.file, first.name.Line, first.name.Column)
		return
	}
	r.file.places[id] = place{r.name, e.At, e.ValueAt()}
}

// checkHasPolicies reports that no file has a policy, unless there are other problems.
func checkHasPolicies(whole *File, readers []*reader) {
	if len(whole.Policies) > 0 || len(readers) == 0 || slices.ContainsFunc(readers, func(r *reader) bool { return len(r.Problems) > 0 }) {
		return
	}
	readers[0].Problems.Addf(readers[0].top, "no policies; write policies: and below it at least one policy with limits")
}
