package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
)

// defaultLimit is the limit if no flag sets one.
const defaultLimit = "100/1m"

// limitFlags set the limits to replay.
type limitFlags struct {
	Limit        []string                `option:"replay.Limits" file:"limits" placeholder:"100/1m" sep:"none" help:"Quota per window, optionally followed by options: '100/1m', '20/1s token-bucket burst=40', '1000/month zone=Europe/Berlin'. Repeat the flag to apply several limits together. (default: 100/1m)" group:"Limits"`
	Algorithm    *choice[rule.Algorithm] `placeholder:"NAME" help:"Algorithm of limits that do not name one: sliding-log, sliding-window, fixed-window, token-bucket, or default: a sliding-log up to a quota of 100, a sliding-window above. Slots (in-flight) cannot be replayed." group:"Limits"`
	Segments     *int                    `placeholder:"N" help:"Number of parts that a sliding window is divided into, 1 to 64." group:"Limits"`
	Overlap      *choice[rule.Overlap]   `placeholder:"HOW" help:"How to count the partly covered oldest part: up, down, whole." group:"Limits"`
	Anchor       *choice[rule.Anchor]    `placeholder:"WHERE" help:"Where windows start: clock, first." group:"Limits"`
	CountRefused bool                    `help:"Charge refused requests too." group:"Limits"`
	Burst        *int64                  `placeholder:"N" help:"Capacity of a token bucket, in units." group:"Limits"`
	Config       []string                `placeholder:"FILE" sep:"none" help:"Policy file, or a folder of such files, to replay instead of limits, as the service applies them: with their patterns, overrides and lists." group:"Limits"`
	Policy       string                  `option:"config.policy" placeholder:"NAME" help:"Replay only this policy of the file." group:"Limits"`
}

// replayTarget holds what to replay: limits, or the policies of a file.
type replayTarget struct {
	limits   []slidegate.Limit
	file     *config.File
	policies *routing.Policies
	against  *routing.Policies // the policies of another file to compare with; nil if none
}

func (f *limitFlags) read() (q replayTarget, err error) {
	if len(f.Config) == 0 {
		if f.Policy != "" {
			return q, errors.New("--policy: needs the file of the policy; add --config FILE")
		}
		q.limits, err = f.limits()
		return q, err
	}
	if len(f.Limit) > 0 || f.hasOptions() {
		return q, errors.New("--config: the file sets the limits; leave out --limit and the flags for limits, or --config")
	}
	if q.file, err = loadConfig(config.LoadOffline, f.Config...); err != nil {
		return q, err
	}
	q.policies, err = routing.New(q.file, f.Policy)
	return q, err
}

// against returns the policies to compare those of --config with, or nil if there are none.
func (r *replayCommand) against() (*routing.Policies, error) {
	switch {
	case len(r.Against) == 0:
		return nil, nil
	case len(r.Config) == 0:
		return nil, errors.New("--against: needs policies to compare with; add --config FILE")
	}
	file, err := loadNamed("--against", config.LoadOffline, r.Against...)
	if err != nil {
		return nil, err
	}
	return routing.New(file, r.Policy)
}

// hasOptions reports whether a flag sets an option of limits.
func (f *limitFlags) hasOptions() bool {
	return f.Algorithm != nil || f.Segments != nil || f.Overlap != nil || f.Anchor != nil || f.CountRefused || f.Burst != nil
}

func (f *limitFlags) limits() ([]slidegate.Limit, error) {
	texts := f.Limit
	if len(texts) == 0 {
		texts = []string{defaultLimit}
	}
	var limits []slidegate.Limit
	for _, text := range texts {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			return nil, inFlag("--limit", err)
		}
		f.setOptions(&limit)
		if err := adapter.Check(limit); err != nil {
			return nil, inFlag("--limit "+text, err)
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// setOptions sets the options of the flags that the limit does not set itself.
func (f *limitFlags) setOptions(l *slidegate.Limit) {
	if l.Calendar == 0 { // a calendar window determines the algorithm
		setIfUnset(&l.Algorithm, f.Algorithm.given())
	}
	setIfUnset(&l.Segments, f.Segments)
	setIfUnset(&l.Overlap, f.Overlap.given())
	setIfUnset(&l.Anchor, f.Anchor.given())
	if l.Calendar == 0 && l.Algorithm == rule.DefaultAlgorithm && (f.Overlap != nil || f.Anchor != nil) &&
		l.Segments == 0 && l.Overlap == rule.OverlapUp && l.Anchor == rule.AnchorClock {
		l.Algorithm = slidegate.SlidingWindow // as in the text of a limit: up and clock are options of a sliding window, and its defaults
	}
	setIfUnset(&l.Burst, f.Burst)
	l.CountRefused = l.CountRefused || f.CountRefused
}

func setIfUnset[T comparable](field *T, flag *T) {
	var unset T
	if flag != nil && *field == unset {
		*field = *flag
	}
}

// choice is the value of a flag that takes the name of an algorithm, an overlap or an anchor.
type choice[T interface {
	~uint8
	String() string
}] struct{ value T }

// UnmarshalText reads a name.
func (c *choice[T]) UnmarshalText(text []byte) error {
	var names []string
	for value := T(0); ; value++ {
		name := value.String()
		if strings.HasPrefix(name, "unknown") { // there are no more
			return fmt.Errorf("must be one of %s, not %q", strings.Join(names, ", "), text)
		}
		if name == string(text) {
			c.value = value
			return nil
		}
		names = append(names, name)
	}
}

// given returns the value, or nil if the flag was not given.
func (c *choice[T]) given() *T {
	if c == nil {
		return nil
	}
	return &c.value
}
