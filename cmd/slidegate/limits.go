package main

import (
	"errors"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/adapter"
)

// defaultLimit is the limit if no flag sets one.
const defaultLimit = "100/1m"

// limitFlags set the limits to replay.
type limitFlags struct {
	Limit  []string `option:"replay.Limits" file:"limits" placeholder:"100/1m" sep:"none" help:"Quota per window, optionally followed by options: '100/1m', '20/1s token-bucket burst=40', '1000/month zone=Europe/Berlin'. Repeat the flag to apply several limits together. (default: 100/1m)" group:"Limits"`
	Config []string `placeholder:"FILE" sep:"none" help:"Policy file, or a folder of such files, to replay instead of limits, as the service applies them: with their patterns, overrides and lists." group:"Limits"`
	Policy string   `option:"config.policy" placeholder:"NAME" help:"Replay only this policy of the file." group:"Limits"`
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
		made, err := f.policy()
		q.limits = made.Limits
		return q, err
	}
	if len(f.Limit) > 0 {
		return q, errors.New("--config: the file sets the limits; leave out --limit, or --config")
	}
	if q.file, err = loadConfig(config.Options{Offline: true}, f.Config...); err != nil {
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
	file, err := loadNamed("--against", config.Options{Offline: true}, r.Against...)
	if err != nil {
		return nil, err
	}
	return routing.New(file, r.Policy)
}

// policy returns a policy with the limits, and with their thresholds.
func (f *limitFlags) policy() (p config.Policy, err error) {
	texts := f.Limit
	if len(texts) == 0 {
		texts = []string{defaultLimit}
	}
	for i, text := range texts {
		if err := p.AddLimit(text); err != nil {
			return p, inFlag("--limit", err)
		}
		if err := adapter.Check(p.Limits[i]); err != nil {
			return p, inFlag("--limit "+text, err)
		}
	}
	return p, nil
}
