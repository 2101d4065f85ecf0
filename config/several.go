package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// Source is the text of a file, and its name in errors.
type Source struct {
	Name string
	Text []byte
}

// ReadSources returns the texts of files, and of all files in folders whose names end in .yaml or .yml, in the order of their
// names.
func ReadSources(paths ...string) ([]Source, error) {
	files, err := yamlfile.Files(paths...)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	sources := make([]Source, len(files))
	for i, path := range files {
		text, err := yamlfile.Read(path)
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		sources[i] = Source{path, text}
	}
	return sources, nil
}

// ParseAll reads several files as one. Each contains some of the policies, and a field beside the policies may be in one file
// only. A policy or a field that is in two files is an error that names both positions. The policies are in the order of the
// files.
func ParseAll(sources ...Source) (*File, error) { return parseAll(sources, false) }

// ParseAllOffline is ParseAll for programs that never connect to the store; see LoadOffline.
func ParseAllOffline(sources ...Source) (*File, error) { return parseAll(sources, true) }

func parseAll(sources []Source, offline bool) (*File, error) {
	whole := &File{}
	readers := make([]*reader, len(sources))
	known := map[string]string{}
	for i, source := range sources {
		readers[i] = &reader{name: source.Name, offline: offline}
		readers[i].read(source.Text, whole)
		readers[i].checkOtherFiles(source.Name, known)
	}
	checkHasPolicies(whole, readers)
	hasJWT := slices.ContainsFunc(readers, func(r *reader) bool { return r.has("jwt") })
	for _, r := range slices.Clone(readers) {
		whole.Others = append(whole.Others, r.others...)
		readers = append(readers, r.files...)
	}
	var problems []error
	for _, r := range readers {
		r.checkNamed(whole.Service.AddressGroups)
		r.checkReached(whole.Service.AddressGroups)
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
		slices.SortStableFunc(r.warnings, func(a, b warning) int {
			return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
		})
		for _, w := range r.warnings {
			whole.Warnings = append(whole.Warnings, &yamlfile.Error{File: r.name, At: w.at, Err: w.err})
		}
	}
	return whole, nil
}

// has reports whether the file has a field beside its policies.
func (r *reader) has(name string) bool {
	return slices.ContainsFunc(r.given, func(e yamlfile.Field) bool { return e.Name == name })
}

// policyMark precedes the names of policies, to distinguish them from fields.
const policyMark = "policy "

// checkOtherFiles reports what an earlier file contains too, and adds to the known positions. Duplicates within a file are
// already reported.
func (r *reader) checkOtherFiles(file string, known map[string]string) {
	own := map[string]string{}
	for _, e := range r.given {
		if first, twice := known[e.Name]; twice {
			name, isPolicy := strings.CutPrefix(e.Name, policyMark)
			what := errtext.Quote(name)
			if isPolicy {
				what = "the policy " + what
			}
			r.Problems.Addf(e.At, "%s is given twice; the first is at %s", what, first)
			continue
		}
		own[e.Name] = fmt.Sprintf("%s:%d:%d", file, e.At.Line, e.At.Column)
	}
	maps.Copy(known, own)
}

// checkHasPolicies reports that no file has a policy, unless there are other problems.
func checkHasPolicies(whole *File, readers []*reader) {
	if len(whole.Policies) > 0 || len(readers) == 0 || slices.ContainsFunc(readers, func(r *reader) bool { return len(r.Problems) > 0 }) {
		return
	}
	readers[0].Problems.Addf(readers[0].top, "no policies; write policies: and below it at least one policy with limits")
}
