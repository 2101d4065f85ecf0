package main

import (
	"errors"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/config"
)

// defaultLimit is what traffic is held against when nobody says.
const defaultLimit = "100/1m"

// limitFlags say which limits are meant.
type limitFlags struct {
	Limit       []string             `option:"replay.Limits" file:"limits" placeholder:"100/1m" sep:"none" help:"A quota per window, which choices may follow: '100/1m', '20/1s token-bucket burst=40', '1000/month zone=Europe/Berlin'. Repeat it for several at once. (default: 100/1m)" group:"Limits"`
	Algorithm   *slidegate.Algorithm `placeholder:"NAME" help:"How to count, for limits that do not say: sliding-log, sliding-window, fixed-window, token-bucket, or default: a sliding-log up to a quota of 100, a sliding-window above. Slots (in-flight) cannot be replayed." group:"Limits"`
	Segments    *int                 `placeholder:"N" help:"Parts that a sliding window is cut into, 1 to 64." group:"Limits"`
	Overlap     *slidegate.Overlap   `placeholder:"HOW" help:"How the partly covered oldest part counts: up, down, whole." group:"Limits"`
	Anchor      *slidegate.Anchor    `placeholder:"WHERE" help:"Where windows start: clock, first." group:"Limits"`
	CountDenied bool                 `help:"Refused requests use quota too." group:"Limits"`
	Burst       *int64               `placeholder:"N" help:"How many units a token bucket holds." group:"Limits"`
	Config      []string             `placeholder:"FILE" sep:"none" help:"Replay the policies of this file, or of all files of a folder, instead, as the service decides by them: with their patterns, overrides and lists." group:"Limits"`
	Policy      string               `option:"config.policy" placeholder:"NAME" help:"Replay this policy of the file alone." group:"Limits"`
}

// replayed is what is to be replayed: limits, or else the policies of a file.
type replayed struct {
	limits   []slidegate.Limit
	file     *config.File
	policies *facing.Policies
	against  *facing.Policies // of another file; nil if there is none
}

func (f *limitFlags) read() (q replayed, err error) {
	if len(f.Config) == 0 {
		if f.Policy != "" {
			return q, errors.New("--policy: a policy is part of a file: add --config FILE")
		}
		q.limits, err = f.limits()
		return q, err
	}
	if len(f.Limit) > 0 || f.choices() {
		return q, errors.New("--config: the policy says what the limits are: leave out --limit and its choices, or --config")
	}
	if q.file, err = loadConfig(config.LoadOffline, f.Config...); err != nil {
		return q, err
	}
	q.policies, err = facing.New(q.file, f.Policy)
	return q, err
}

// against returns the policies that those of --config are compared with, or nil if none is.
func (r *replayCommand) against() (*facing.Policies, error) {
	switch {
	case len(r.Against) == 0:
		return nil, nil
	case len(r.Config) == 0:
		return nil, errors.New("--against: policies are compared with policies: add --config FILE")
	}
	file, err := loadNamed("--against", config.LoadOffline, r.Against...)
	if err != nil {
		return nil, err
	}
	return facing.New(file, r.Policy)
}

// choices tells whether any choice was made by a flag.
func (f *limitFlags) choices() bool {
	return f.Algorithm != nil || f.Segments != nil || f.Overlap != nil || f.Anchor != nil || f.CountDenied || f.Burst != nil
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
		f.choose(&limit)
		if err := limit.Check(); err != nil {
			return nil, inFlag("--limit "+text, err)
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// choose makes the choices of the flags that a limit has not made itself.
func (f *limitFlags) choose(l *slidegate.Limit) {
	if l.Calendar == 0 { // which says how to count
		pick(&l.Algorithm, f.Algorithm)
	}
	pick(&l.Segments, f.Segments)
	pick(&l.Overlap, f.Overlap)
	pick(&l.Anchor, f.Anchor)
	if l.Calendar == 0 && l.Algorithm == slidegate.DefaultAlgorithm && (f.Overlap != nil || f.Anchor != nil) &&
		l.Segments == 0 && l.Overlap == slidegate.OverlapUp && l.Anchor == slidegate.AnchorClock {
		l.Algorithm = slidegate.SlidingWindow // as in the text of a limit: up and clock are choices of a sliding window, and its defaults
	}
	pick(&l.Burst, f.Burst)
	l.CountDenied = l.CountDenied || f.CountDenied
}

func pick[T comparable](field *T, flag *T) {
	var unset T
	if flag != nil && *field == unset {
		*field = *flag
	}
}
