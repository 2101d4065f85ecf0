package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/rule"
)

// replayCommand shows what limits would have done to recorded traffic.
type replayCommand struct {
	Files []string `arg:"" optional:"" name:"file" help:"Logs: plain, gzip or zstd; several are merged by time; - is standard input."`

	Log    string            `option:"traffic.Format" default:"auto" placeholder:"FORMAT" help:"Format of the logs: ${formats}; or a description of their columns, such as '{address} [{time}] \"{request}\" {status}'. (default: auto)" group:"Input"`
	Key    string            `option:"traffic.Key config.key" file:"key" placeholder:"FIELD" help:"Key of a request: address, user, path, method, host, header:NAME, field:PATH, key, or a template such as '{address} {path}'. (default: address; for JSON lines, key)" group:"Input"`
	Cost   string            `option:"traffic.Cost config.cost" file:"cost" placeholder:"N" help:"Cost of a request: a number, bytes, or field:PATH. (default: 1; for JSON lines, their cost)" group:"Input"`
	Field  map[string]string `option:"traffic.Fields" placeholder:"NAME=PATH" help:"Path of a field in other JSON logs: time, address, user, method, path, host, status, bytes, key, cost." group:"Input"`
	V4     int               `option:"traffic.Grouping.V4" name:"ipv4-prefix" placeholder:"BITS" help:"Addresses that share this many leading bits are one key. (default: 32, or the setting of the file)" group:"Input"`
	V6     int               `option:"traffic.Grouping.V6" name:"ipv6-prefix" placeholder:"BITS" help:"The same for IPv6. (default: 64, or the setting of the file)" group:"Input"`
	Method []string          `option:"traffic.Filter.Method" placeholder:"GET" help:"Only these methods; !GET excludes one." group:"Input"`
	Path   []string          `option:"traffic.Filter.Path" sep:"none" placeholder:"/api/*" help:"Only these paths; * matches anything; !/static/* excludes some." group:"Input"`
	Status []string          `option:"traffic.Filter.Status" placeholder:"2xx" help:"Only these statuses: 404, 2xx, 400-499; !429 excludes one." group:"Input"`
	Sort   time.Duration     `option:"replay.Sort" default:"10s" help:"How far out of order lines may be and still be replayed in order of time; 0 replays them as they are." group:"Input"`

	limitFlags

	Against []string `option:"replay.Against" placeholder:"FILE" sep:"none" help:"Policy file, or a folder of such files, to compare with on the same traffic: which keys would be newly refused, and which newly admitted. Needs --config." group:"Analysis"`
	Compare *bool    `negatable:"" help:"Run all algorithms on the same traffic, side by side." group:"Analysis"`
	Sweep   string   `option:"replay.Sweep" placeholder:"10..1000" help:"Try other quotas of the first limit: 10..1000, 10..1000:10 or 10,20,50; off." group:"Analysis"`
	Suggest string   `option:"replay.Suggest replay.Percent" placeholder:"PERCENT" help:"Find the smallest quota of the first limit that refuses requests of at most this share of the keys, such as 1%." group:"Analysis"`

	Format    string `enum:"text,json,csv" default:"text" help:"Output format: text, json, csv." group:"Output"`
	HTML      string `placeholder:"FILE" help:"Write the report as an HTML page, with --compare and --sweep unless they are turned off." group:"Output"`
	Decisions string `option:"replay.Decisions" placeholder:"FILE" help:"Write every decision as a JSON line, in the order of the input." group:"Output"`
	Top       int    `option:"replay.Top" default:"10" help:"Number of most refused keys to list." group:"Output"`
}

func (r *replayCommand) Run(ctx context.Context, c *console) (err error) {
	selected, err := r.read()
	if err != nil {
		return err
	}
	policies := selected.policies
	if selected.against, err = r.against(); err != nil {
		return err
	}
	opts, err := r.replayOptions(selected)
	if err != nil {
		return err
	}
	in, err := r.open(ctx, c, selected)
	if err != nil {
		return err
	}
	defer in.close()
	out, err := r.create()
	if err != nil {
		return err
	}
	defer out.close()
	if out.decisions != nil {
		opts.Decisions = out.decisions
	}
	bar := newProgress(c, in.size(), in.read)
	opts.Progress = bar.update
	found, err := replay.Run(ctx, in.lines, opts)
	bar.close()
	if found == nil {
		return errors.Join(err, in.noRequests(err))
	}
	document := &report.Document{Title: in.title(), Command: c.command, Per: r.per(policies, in), Findings: found, Sources: in.sources()}
	document.After, document.Before = strings.Join(r.Config, ", "), strings.Join(r.Against, ", ")
	document.Suggested = r.paste(selected, in, found)
	return errors.Join(out.write(c, document, r.Format), err)
}

// replayOptions returns the options of the replay.
func (r *replayCommand) replayOptions(selected replayTarget) (opts replay.Options, err error) {
	limits := selected.limits
	opts = replay.Options{Limits: limits, Top: r.Top, Sort: r.Sort}
	sweeps := true // a page has a sweep by default, if there is a single policy
	if selected.policies != nil {
		opts.Groups = selected.policies.Groups()
		limits, sweeps = opts.Groups[0].Limits, selected.policies.Len() == 1 && selected.against == nil
	}
	if selected.against != nil {
		opts.Against = selected.against.Groups()
		if r.Decisions != "" {
			return opts, errors.New("--against: cannot be combined with --decisions, which are those of one file; leave one out")
		}
	}
	page := r.HTML != ""
	opts.Compare = page && r.Compare == nil && selected.against == nil || r.Compare != nil && *r.Compare
	switch {
	case r.Sweep == "" && page && sweeps:
		opts.Sweep = sweepAround(limits[0])
	case r.Sweep != "" && r.Sweep != "off":
		if opts.Sweep, err = replay.ParseSweep(r.Sweep); err != nil {
			return opts, err
		}
	}
	if r.Suggest != "" {
		opts.Suggest = true
		opts.Percent, err = strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(r.Suggest, "%")), 64)
		if err != nil {
			return opts, fmt.Errorf("--suggest: invalid percentage %q; want a share of the keys, such as 1%%", r.Suggest)
		}
	}
	return opts, opts.Check()
}

// sweepAround returns quotas from a tenth of the limit's quota to ten times that.
func sweepAround(limit slidegate.Limit) []int64 {
	maxQuota := int64(rule.MaxQuota)
	if limit.Algorithm == slidegate.SlidingLog {
		maxQuota = rule.MaxLogQuota
	}
	return replay.SweepRange(max(1, limit.Quota/10), min(maxQuota, max(10, limit.Quota*10)))
}

// trafficOptions returns the options for reading logs, from the flags and the policies, if any.
func (r *replayCommand) trafficOptions(selected replayTarget) (opts traffic.Options, err error) {
	opts.Policies = selected.policies
	opts.Against, opts.AgainstName = selected.against, strings.Join(r.Against, ", ")
	if r.Key != "" {
		if opts.Key, err = fields.ParseTemplate(r.Key); err != nil {
			return opts, inFlag("--key", err)
		}
	}
	if r.Cost != "" {
		if opts.Cost, err = fields.ParseCost(r.Cost); err != nil {
			return opts, inFlag("--cost", err)
		}
		opts.IgnoreOwnCost = true
	}
	if opts.Filter, err = traffic.ParseFilter(r.Method, r.Path, r.Status); err != nil {
		return opts, err
	}
	if r.Suggest != "" {
		opts.Match = r.patterns()
	}
	opts.Format, opts.Fields = r.Log, r.Field
	opts.Grouping = clientip.Grouping{V4: r.V4, V6: r.V6}
	return opts, nil
}

// open opens the traffic to replay.
func (r *replayCommand) open(ctx context.Context, c *console, selected replayTarget) (*input, error) {
	if len(r.Files) == 0 {
		return nil, errors.New("nothing to replay; name a log, or - to read one from a pipe")
	}
	opts, err := r.trafficOptions(selected)
	if err != nil {
		return nil, err
	}
	return openFiles(ctx, r.Files, c.in, opts)
}

// per describes the key in words, such as "address and path"; it is empty if each policy has its own.
func (r *replayCommand) per(policies *routing.Policies, in *input) string {
	switch {
	case r.Key != "":
		template, err := fields.ParseTemplate(r.Key)
		if err != nil {
			return "" // opening the traffic has rejected it
		}
		return describeKey(template)
	case policies != nil && policies.Len() > 1:
		return ""
	case policies != nil && !policies.Policy(0).Key.IsZero():
		return describeKey(policies.Policy(0).Key)
	case in.readers[0].Source().Format != "JSON lines":
		return "address"
	}
	return ""
}

// describeKey lists the fields of a key and of its alternatives.
func describeKey(key fields.Template) string {
	var choices []string
	for _, choice := range key.Alternatives() {
		var fields []string
		for _, field := range choice.Fields() {
			fields = append(fields, field.String())
		}
		choices = append(choices, strings.Join(fields, " and "))
	}
	return strings.Join(choices, ", or else ")
}

func formatsHelp() string {
	return traffic.Auto + ", " + strings.Join(traffic.FormatNames(), ", ")
}
