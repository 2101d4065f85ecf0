package config

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/slidegate/slidegate"
)

// MaxSize is how large a file may be, in bytes.
const MaxSize = 1 << 20

// File is what a file of policies says. It is a plain value; whoever shares it must not change it.
type File struct {
	Policies []Policy // in the order of the file
}

// Policy is a named set of limits that a request faces all at once, and how to find the key and the cost of a request.
type Policy struct {
	Name   string
	Key    Template
	Cost   Cost
	Limits []slidegate.Limit
}

// Load reads the file at path. The error is that of Parse if the file can be read.
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(path, text)
}

// Parse reads a file of policies; its name is for errors alone. The error joins all the problems that were found, in the
// order of the file and at most ten, each with the line and column it is at:
//
//	slidegate.yaml:7:9: "quotta" is not a field of a limit; did you mean "quota"? (there are name, quota, ...)
//
// A problem with a limit wraps what slidegate says of it, so that errors.Is finds slidegate.ErrLimit.
func Parse(name string, text []byte) (*File, error) {
	r := &reader{}
	file := r.read(text)
	if err := r.problems.join(name); err != nil {
		return nil, err
	}
	return file, nil
}

// Policy returns the policy of that name. An empty name means the only policy of a file that has one. The error names
// the policies that there are, and the one that was probably meant.
func (f *File) Policy(name string) (*Policy, error) {
	names := make([]string, len(f.Policies))
	for i := range f.Policies {
		if names[i] = f.Policies[i].Name; names[i] == name {
			return &f.Policies[i], nil
		}
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("config: there are no policies")
	case name == "" && len(names) == 1:
		return &f.Policies[0], nil
	case name == "":
		return nil, fmt.Errorf("config: there are several policies; name one (%s)", thereAre(names))
	}
	return nil, fmt.Errorf("config: %w", unknown(name, "a policy", names))
}
