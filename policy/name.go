package policy

import (
	"fmt"

	"github.com/slidegate/slidegate"
)

// MaxName is how long the name of a policy or of a limit may be, in bytes: header fields carry both at each response, and
// proxies refuse headers of a few kilobytes. Files of package config have the same bound.
const MaxName = 64

// CheckName returns an error if the name of a policy or of a limit cannot stand in header fields: it is printable ASCII of at
// most MaxName bytes. An empty name is fine.
func CheckName(name string) error {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' {
			return fmt.Errorf("the name %q cannot stand in a header; use printable ASCII", name[:min(len(name), MaxName)])
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

// checkName is CheckName, but that a Set over stores takes any bytes: the adapter that writes
// its answers decides which names there can be.
func (s *Set) checkName(name string) error {
	if s.limiter == nil {
		return checkLength(name)
	}
	return CheckName(name)
}

// checkNames returns an error if the name of a limit is wrong.
func (s *Set) checkNames(limits []slidegate.Limit) error {
	for _, limit := range limits {
		if err := s.checkName(limit.Name); err != nil {
			return fmt.Errorf("%w: %w", slidegate.ErrLimit, err)
		}
	}
	return nil
}
