package config

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// File is the content of a file of policies. It is a plain value; callers that share it must not change it.
type File struct {
	Policies []Policy // in the order of the file
	Service  Service  // the settings of the service
	Envoy    Envoy    // rules in the format of envoyproxy/ratelimit, for the service
	// Others are the paths of files that the file names and whose content is part of it: files of overrides, and of keys for
	// tokens. A program that reads the file again when it changes watches them too.
	Others []string
	// Warnings are about what is valid and hardly meant: a list that exempts every client, for example. Each is a *yamlfile.Error,
	// with a line and column.
	Warnings []error

	places map[string]place // where fields are, for Locate
}

// Options configures how files are read. The zero value is for a program that connects to the store.
type Options struct {
	// Offline is for programs that never connect to the store, such as one that checks files or replays traffic: an environment
	// variable that is not set, or a secret file that does not exist, is not an error, and stays in the store's URL as written.
	Offline bool
	// RequireKeys makes missing keys of jwt an error even if Offline is set, as they are otherwise.
	RequireKeys bool
	// Stdin is what the path "-" names; nil means a file of that name.
	Stdin io.Reader
}

// Load reads a file, or several as one; a folder stands for the files in it whose names end in .yaml or .yml. Each file contains
// some of the policies, and a field beside the policies may be in one file only. The policies are in the order of the files. If the
// files can be read, the error is that of Parse.
func Load(opts Options, paths ...string) (*File, error) {
	files, err := yamlfile.Files(paths...)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	inputs := make([]input, len(files))
	for i, path := range files {
		inputs[i].name = path
		if path == "-" && opts.Stdin != nil {
			inputs[i].name = "<stdin>"
			inputs[i].text, err = io.ReadAll(io.LimitReader(opts.Stdin, yamlfile.MaxSize+1))
		} else {
			inputs[i].text, err = yamlfile.Read(path)
		}
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	return parse(opts, inputs...)
}

// Parse reads a file of policies; name is used in errors only. The error joins the problems that were found, in the order of
// the file and at most ten, each with its line and column:
//
//	slidegate.yaml:7:9: "quotta" is not a field of a limit; did you mean "quota"? (want one of name, quota, ...)
//
// An error about a limit wraps the error of package slidegate, so that errors.Is finds slidegate.ErrLimit.
func Parse(name string, text []byte) (*File, error) { return parse(Options{}, input{name, text}) }

// Policy returns the policy of that name. An empty name means Service.Default; if that is empty too, the policy named
// "default", or the only one. The error lists the policies, and suggests the one that was probably meant; it is an
// *options.Error.
func (f *File) Policy(name string) (*Policy, error) {
	names := make([]string, len(f.Policies))
	for i := range f.Policies {
		names[i] = f.Policies[i].Name
	}
	wanted := name
	if wanted == "" {
		wanted = f.defaultName()
	}
	if i := slices.Index(names, wanted); i >= 0 {
		return &f.Policies[i], nil
	}
	switch {
	case len(names) == 0:
		return nil, policyError(errors.New("the file has no policies"))
	case wanted == "":
		return nil, policyError(fmt.Errorf("the file has several policies; name one (%s)", errtext.OneOf(names)))
	}
	return nil, policyError(errtext.Unknown(wanted, "a policy", names))
}

func policyError(why error) error {
	return &options.Error{Package: "config", Option: "policy", Err: why}
}

// defaultName returns the name of the policy for clients that name none; empty if there is none.
func (f *File) defaultName() string {
	const usual = "default"
	switch {
	case f.Service.Default != "":
		return f.Service.Default
	case slices.ContainsFunc(f.Policies, func(p Policy) bool { return p.Name == usual }):
		return usual
	case len(f.Policies) == 1:
		return f.Policies[0].Name
	}
	return ""
}

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (2020-12) of the files that Parse reads, for editors that complete and check while typing. It is
// more lenient than Parse, since only Parse checks whether a limit makes sense.
func Schema() []byte { return slices.Clone(schema) }
