package config

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// MaxSize is how large a file may be, in bytes.
const MaxSize = yamlfile.MaxSize

// File is what a file of policies says. It is a plain value; whoever shares it must not change it.
type File struct {
	Policies []Policy // in the order of the file
	Service  Service  // what the server needs besides
}

// Load reads a file, or several as one, as ParseAll does; a folder stands for the files in it that end in .yaml or .yml. The error is
// that of Parse if the files can be read.
func Load(paths ...string) (*File, error) {
	sources, err := ReadSources(paths...)
	if err != nil {
		return nil, err
	}
	return ParseAll(sources...)
}

// Parse reads a file of policies; its name is for errors alone. The error joins all the problems that were found, in the
// order of the file and at most ten, each with the line and column it is at:
//
//	slidegate.yaml:7:9: "quotta" is not a field of a limit; did you mean "quota"? (there are name, quota, ...)
//
// A problem with a limit wraps what slidegate says of it, so that errors.Is finds slidegate.ErrLimit.
func Parse(name string, text []byte) (*File, error) { return ParseAll(Source{name, text}) }

// LoadOffline is Load for a program that never connects to the store, such as one that checks files or replays traffic: a
// variable of the environment that is not set, or a secret that is not there, is not an error, and stands in the store's URL as it
// was written. A program that connects must use Load.
func LoadOffline(paths ...string) (*File, error) {
	sources, err := ReadSources(paths...)
	if err != nil {
		return nil, err
	}
	return ParseAllOffline(sources...)
}

// ParseOffline is Parse for a program that never connects to the store; see LoadOffline.
func ParseOffline(name string, text []byte) (*File, error) {
	return ParseAllOffline(Source{name, text})
}

// Policy returns the policy of that name. An empty name means the one that Service.Default names; where it names none,
// the one that is called "default", or the only one. The error names the policies that there are, and the one that was
// probably meant; it is an OptionError.
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
		return nil, noPolicy(errors.New("there are no policies"))
	case wanted == "":
		return nil, noPolicy(fmt.Errorf("there are several policies; name one (%s)", wording.ThereAre(names)))
	}
	return nil, noPolicy(wording.Unknown(wanted, "a policy", names))
}

func noPolicy(why error) error {
	return &OptionError{Package: "config", Option: "policy", Err: why}
}

// defaultName returns the name of the policy that is meant when none is named; empty if there is none.
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

// Schema returns a JSON Schema (2020-12) of the files that Parse reads, for editors that complete and check while somebody
// writes. It is more lenient than Parse, which alone knows whether a limit makes sense.
func Schema() []byte { return slices.Clone(schema) }
