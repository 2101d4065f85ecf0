package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// Locate adds the line and column of the field to an error about a field of a file, as HTTP and the service return it, in the
// same form as errors of Parse: an OptionError becomes a yamlfile.Error, and other errors stay as they are. The sources are the
// files that were read.
func Locate(err error, sources ...Source) error {
	if err == nil {
		return nil
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, Locate(one, sources...))
		}
		slices.SortStableFunc(all, func(a, b error) int { return byPosition(a, b, sources) })
		return errors.Join(all...)
	}
	var wrong *options.Error
	if !errors.As(err, &wrong) {
		return err
	}
	for _, source := range sources {
		at, found := positionOf(source.Text, wrong)
		if !found {
			continue
		}
		cause := wrong.Err
		var limit *slidegate.LimitError
		if errors.As(cause, &limit) {
			cause = limit.Err
		}
		return &yamlfile.Error{File: source.Name, At: at, Err: fmt.Errorf("%s: %w", fieldOf(wrong), cause)}
	}
	return err
}

// byPosition compares errors by their position in the files; errors without a position come first.
func byPosition(a, b error, sources []Source) int {
	locate := func(err error) (file int, at yamlfile.Position) {
		var placed *yamlfile.Error
		if errors.As(err, &placed) {
			file = slices.IndexFunc(sources, func(s Source) bool { return s.Name == placed.File })
			at = placed.At
		}
		return file, at
	}
	firstFile, first := locate(a)
	secondFile, second := locate(b)
	return cmp.Or(cmp.Compare(firstFile, secondFile), cmp.Compare(first.Line, second.Line), cmp.Compare(first.Column, second.Column))
}

// fieldOf returns the name of the field of a file that sets an option.
func fieldOf(wrong *options.Error) string {
	if wrong.Package == "open" {
		return "store"
	}
	return wrong.Option
}

// positionOf returns the position of a field in a file: of its value, or of the policy if the field is left to its default.
func positionOf(text []byte, wrong *options.Error) (at yamlfile.Position, found bool) {
	r := &reader{}
	root, at := r.Document(text, "", "")
	if root == nil {
		return at, false
	}
	if wrong.Within != "" {
		policies, ok := r.field(root, "policies")
		if !ok {
			return at, false
		}
		fields, _ := r.Fields(policies.Value)
		for _, policy := range fields {
			if policyLabel(policy.Name) != wrong.Within {
				continue
			}
			if field, ok := r.field(r.Resolve(policy.Value), wrong.Option); ok {
				return field.ValueAt(), true
			}
			return policy.At, true
		}
		return at, false
	}
	field, ok := r.field(root, fieldOf(wrong))
	return field.ValueAt(), ok
}

// policyLabel is how an OptionError names a policy.
func policyLabel(name string) string { return fmt.Sprintf("policy %q", name) }

// field returns a field of a mapping.
func (r *reader) field(node ast.Node, name string) (yamlfile.Field, bool) {
	fields, _ := r.Fields(node)
	for _, f := range fields {
		if f.Name == name {
			if value := r.Resolve(f.Value); value != nil {
				f.Value = value
			}
			return f, f.Value != nil
		}
	}
	return yamlfile.Field{}, false
}
