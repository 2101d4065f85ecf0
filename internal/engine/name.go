package engine

import (
	"fmt"

	"github.com/slidegate/slidegate"
)

// MaxName is the maximum length of the name of a policy or a limit, in bytes: header fields carry both in every
// response, and proxies reject headers of a few kilobytes. Files of package config have the same bound.
const MaxName = 64

// CheckName returns an error if the name of a policy or a limit is not valid in header fields, which means printable
// ASCII of at most MaxName bytes. An empty name is valid.
func CheckName(name string) error {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' {
			return fmt.Errorf("the name %q is not valid in a header; use printable ASCII", name[:min(len(name), MaxName)])
		}
	}
	return checkLength(name)
}

func checkLength(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("the name %q... has %d bytes; use at most %d", name[:32], len(name), MaxName)
	}
	return nil
}

// checkName is CheckName, except that a Set over stores accepts any bytes: the adapter that writes its answers decides
// which names are valid.
func (s *Set) checkName(name string) error {
	if s.limiter == nil {
		return checkLength(name)
	}
	return CheckName(name)
}

// checkNames returns an error if the name of a limit is invalid.
func (s *Set) checkNames(limits []slidegate.Limit) error {
	for _, limit := range limits {
		if err := s.checkName(limit.Name); err != nil {
			return fmt.Errorf("%w: %w", slidegate.ErrLimit, err)
		}
	}
	return nil
}
