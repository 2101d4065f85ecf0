package rule

import (
	"fmt"
	"slices"
	"strings"
)

var (
	algorithmNames = []string{"default", "sliding-log", "fixed-window", "token-bucket", "sliding-window", "in-flight"}
	overlapNames   = []string{"up", "down", "whole"}
	anchorNames    = []string{"clock", "first"}
	opNames        = []string{"take", "take-up-to", "peek", "charge", "give-back", "reset", "settle", "renew"}
	periodNames    = []string{"none", "day", "week", "month", "year"}
)

// String returns the algorithm's name, as written in flags and configuration files.
func (a Algorithm) String() string { return nameOf(algorithmNames, int(a)) }

// String returns the overlap's name, as written in flags and configuration files.
func (o Overlap) String() string { return nameOf(overlapNames, int(o)) }

// String returns the anchor's name, as written in flags and configuration files.
func (a Anchor) String() string { return nameOf(anchorNames, int(a)) }

// String returns the period's name, such as "month".
func (p Period) String() string { return nameOf(periodNames, int(p)) }

// String returns the operation's name, such as "take" or "give-back".
func (o Op) String() string { return nameOf(opNames, int(o)) }

// MarshalText makes an Op readable in JSON and logs.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// MarshalText makes an Algorithm readable in JSON, YAML and flags.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// MarshalText makes an Overlap readable in JSON, YAML and flags.
func (o Overlap) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// MarshalText makes an Anchor readable in JSON, YAML and flags.
func (a Anchor) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the name of an operation.
func (o *Op) UnmarshalText(text []byte) error {
	i := slices.Index(opNames, string(text))
	if i < 0 {
		return fmt.Errorf("rule: op: must be one of %s, not %q", strings.Join(opNames, ", "), text)
	}
	*o = Op(i)
	return nil
}

// UnmarshalText reads the name of an algorithm.
func (a *Algorithm) UnmarshalText(text []byte) error {
	i, err := indexOf("algorithm", algorithmNames, string(text))
	if err == nil {
		*a = Algorithm(i)
	}
	return err
}

// MarshalText makes a Period readable in JSON, YAML and flags.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the name of a period.
func (p *Period) UnmarshalText(text []byte) error {
	i, err := indexOf("calendar", periodNames, string(text))
	if err == nil {
		*p = Period(i)
	}
	return err
}

// UnmarshalText reads the name of an overlap.
func (o *Overlap) UnmarshalText(text []byte) error {
	i, err := indexOf("overlap", overlapNames, string(text))
	if err == nil {
		*o = Overlap(i)
	}
	return err
}

// UnmarshalText reads the name of an anchor.
func (a *Anchor) UnmarshalText(text []byte) error {
	i, err := indexOf("anchor", anchorNames, string(text))
	if err == nil {
		*a = Anchor(i)
	}
	return err
}

func nameOf(names []string, i int) string {
	if i >= len(names) {
		return fmt.Sprintf("unknown(%d)", i)
	}
	return names[i]
}

func indexOf(field string, names []string, name string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: %s: must be one of %s, not %q", ErrLimit, field, strings.Join(names, ", "), name)
}
