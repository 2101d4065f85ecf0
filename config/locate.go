package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// Locate adds the line and column of the field to an error about a field of the file, as HTTP and the service return it, in the
// same form as errors of Parse: an options.Error becomes a yamlfile.Error, at the value of the field, or at the policy if the field
// is left to its default. Other errors stay as they are, and so do errors about a File that a program made.
func (f *File) Locate(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, f.Locate(one))
		}
		slices.SortStableFunc(all, byPosition)
		return errors.Join(all...)
	}
	var wrong *options.Error
	if !errors.As(err, &wrong) {
		return err
	}
	field := wrong.Option
	if wrong.Package == "open" {
		field = "store"
	}
	found, ok := f.places[wrong.Within+field]
	at := found.value
	if !ok {
		if found, ok = f.places[wrong.Within]; !ok {
			return err
		}
		at = found.name
	}
	cause := wrong.Err
	var limit *slidegate.LimitError
	if errors.As(cause, &limit) {
		cause = limit.Err
	}
	return &yamlfile.Error{File: found.file, At: at, Err: fmt.Errorf("%s: %w", field, cause)}
}

// byPosition compares errors by their positions; errors without a position come first.
func byPosition(a, b error) int {
	var first, second yamlfile.Error
	for _, one := range []struct {
		err error
		at  *yamlfile.Error
	}{{a, &first}, {b, &second}} {
		var placed *yamlfile.Error
		if errors.As(one.err, &placed) {
			*one.at = *placed
		}
	}
	return cmp.Or(cmp.Compare(first.File, second.File), first.At.Compare(second.At))
}

// policyLabel is how an options.Error names a policy.
func policyLabel(name string) string { return fmt.Sprintf("policy %q", name) }
