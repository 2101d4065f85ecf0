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
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// trailsDrawn is how many of the worst keys the page draws over time.
const trailsDrawn = 6

// replayCommand shows what limits would have done.
type replayCommand struct {
	Files []string `arg:"" optional:"" name:"file" help:"Logs, plain, gzip or zstd; several are merged by time; - is standard input."`

	Log    string            `option:"traffic.Format" default:"auto" placeholder:"FORMAT" help:"What the logs are: ${formats}. (default: auto)" group:"Input"`
	Key    string            `option:"traffic.Key config.key" file:"key" placeholder:"FIELD" help:"Who is limited: address, user, path, method, host, header:NAME, field:PATH, key, or a template such as '{address} {path}'. (default: address, for JSON lines key)" group:"Input"`
	Cost   string            `option:"traffic.Cost config.cost" file:"cost" placeholder:"N" help:"What a request costs: a number, bytes, or field:PATH. (default: 1, for JSON lines their cost)" group:"Input"`
	Field  map[string]string `option:"traffic.Fields" placeholder:"NAME=PATH" help:"Where other JSON logs have time, address, user, method, path, host, status, bytes, key, cost." group:"Input"`
	V4     int               `option:"traffic.Grouping.V4" name:"ipv4-prefix" placeholder:"BITS" help:"Addresses that share this many bits are one key. (default: 32, or what the file says)" group:"Input"`
	V6     int               `option:"traffic.Grouping.V6" name:"ipv6-prefix" placeholder:"BITS" help:"The same for IPv6. (default: 64, or what the file says)" group:"Input"`
	Method []string          `option:"traffic.Filter.Method" placeholder:"GET" help:"Only these methods; !GET leaves one out." group:"Input"`
	Path   []string          `option:"traffic.Filter.Path" sep:"none" placeholder:"/api/*" help:"Only these paths; * is anything; !/static/* leaves some out." group:"Input"`
	Status []string          `option:"traffic.Filter.Status" placeholder:"2xx" help:"Only these statuses: 404, 2xx, 400-499; !429 leaves one out." group:"Input"`
	Sort   time.Duration     `option:"replay.Sort" default:"10s" help:"How far out of order lines may be and still be decided in order; 0 takes them as they are." group:"Input"`

	limitFlags

	Against []string `option:"replay.Against" placeholder:"FILE" sep:"none" help:"Compare with the policies of this file, or of all files of a folder, on the same traffic: who would be newly denied, and who newly admitted. Needs --config." group:"Questions"`
	Compare *bool    `negatable:"" help:"Run all algorithms on the same traffic, side by side." group:"Questions"`
	Sweep   string   `option:"replay.Sweep" placeholder:"10..1000" help:"Try other quotas of the first limit: 10..1000, 10..1000:10 or 10,20,50; off." group:"Questions"`
	Suggest string   `option:"replay.Suggest replay.Percent" placeholder:"PERCENT" help:"Find the smallest quota of the first limit that touches at most this share of the keys, such as 1%." group:"Questions"`

	Format    string `enum:"text,json,csv" default:"text" help:"How to print the report: text, json, csv." group:"Output"`
	HTML      string `placeholder:"FILE" help:"Write the report as a page, with --compare and --sweep unless they are turned off." group:"Output"`
	Decisions string `option:"replay.Decisions" placeholder:"FILE" help:"Write every decision as a JSON line, in the order of the input." group:"Output"`
	Top       int    `option:"replay.Top" default:"10" help:"How many of the most denied keys to name." group:"Output"`

	Made string `option:"generate.Shape" name:"generate" placeholder:"SHAPE" help:"Replay made-up traffic instead of a log: ${shapeNames}." group:"Made-up traffic"`
	shapeFlags
}

func (r *replayCommand) Run(ctx context.Context, c *console) (err error) {
	asked, err := r.read()
	if err != nil {
		return err
	}
	policies := asked.policies
	if asked.against, err = r.against(); err != nil {
		return err
	}
	opts, err := r.questions(asked)
	if err != nil {
		return err
	}
	in, err := r.open(ctx, c, asked)
	if err != nil {
		return err
	}
	defer in.close()
	out, err := r.create(in)
	if err != nil {
		return err
	}
	defer out.close()
	if out.decisions != nil {
		opts.Decisions = out.decisions
	}
	bar := newProgress(c, in.total, in.done)
	opts.Progress = bar.update
	found, err := replay.Run(ctx, in.lines, opts)
	bar.close()
	if found == nil {
		return errors.Join(err, in.nothing(err))
	}
	document := &report.Document{Title: in.title(), Command: c.command, Per: r.per(policies, in), Findings: found, Sources: in.sources(), Notes: in.notes}
	document.After, document.Before = strings.Join(r.Config, ", "), strings.Join(r.Against, ", ")
	document.Suggested = r.paste(asked, in, found)
	return errors.Join(out.write(c, document, r.Format), err)
}

// questions turns flags into what the replay is asked.
func (r *replayCommand) questions(asked replayed) (opts replay.Options, err error) {
	limits := asked.limits
	opts = replay.Options{Limits: limits, Top: r.Top, Sort: r.Sort}
	sweeps := true // a page has a sweep by default, which is about one policy
	if asked.policies != nil {
		opts.Groups = asked.policies.Groups()
		limits, sweeps = opts.Groups[0].Limits, asked.policies.Len() == 1 && asked.against == nil
	}
	if asked.against != nil {
		opts.Against = asked.against.Groups()
		if r.Decisions != "" {
			return opts, errors.New("--against: --decisions are those of one file: leave one of the two out")
		}
	}
	page := r.HTML != ""
	opts.Compare = page && r.Compare == nil && asked.against == nil || r.Compare != nil && *r.Compare
	if page {
		opts.Trails = trailsDrawn
	}
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
			return opts, fmt.Errorf("--suggest: %q is not a percentage of keys, such as 1%%", r.Suggest)
		}
	}
	return opts, opts.Check()
}

// sweepAround returns quotas from a tenth to ten times that of a limit.
func sweepAround(limit slidegate.Limit) []int64 {
	most := int64(rule.MaxQuota)
	if limit.Algorithm == slidegate.SlidingLog {
		most = rule.MaxLogQuota
	}
	return replay.SweepRange(max(1, limit.Quota/10), min(most, max(10, limit.Quota*10)))
}

// reading turns flags, and the policies if there are some, into how logs are read.
func (r *replayCommand) reading(asked replayed) (opts traffic.Options, err error) {
	opts.Policies, opts.About = asked.policies, true
	opts.Against, opts.AgainstName = asked.against, strings.Join(r.Against, ", ")
	if r.Key != "" {
		if opts.Key, err = config.ParseTemplate(r.Key); err != nil {
			return opts, err
		}
	}
	if r.Cost != "" {
		if opts.Cost, err = config.ParseCost(r.Cost); err != nil {
			return opts, err
		}
		opts.IgnoreOwnCost = true
	}
	if opts.Format, err = traffic.ParseFormat(r.Log); err != nil {
		return opts, err
	}
	if opts.Filter, err = traffic.ParseFilter(r.Method, r.Path, r.Status); err != nil {
		return opts, err
	}
	if r.Suggest != "" {
		opts.Match = r.patterns()
	}
	opts.Fields = r.Field
	opts.Grouping = clientip.Grouping{V4: r.V4, V6: r.V6}
	return opts, nil
}

// open opens what is to be replayed.
func (r *replayCommand) open(ctx context.Context, c *console, asked replayed) (*input, error) {
	if r.Made != "" {
		if len(r.Files) > 0 {
			return nil, errors.New("--generate replays made-up traffic: leave out the files, or --generate")
		}
		made, err := r.traffic(r.Made)
		if err != nil {
			return nil, err
		}
		return madeUp(r.Made, made, r.Requests, asked), nil
	}
	if len(r.Files) == 0 {
		return nil, errors.New("there is nothing to replay: name a log, - for standard input, or try --generate mixed")
	}
	opts, err := r.reading(asked)
	if err != nil {
		return nil, err
	}
	return openFiles(ctx, r.Files, c.in, opts)
}

// per says in words what the key was, such as "address and path"; empty where each policy has its own.
func (r *replayCommand) per(policies *facing.Policies, in *input) string {
	switch {
	case r.Key != "":
		template, err := config.ParseTemplate(r.Key)
		if err != nil {
			return "" // reading the traffic has refused it
		}
		return inWords(template)
	case policies != nil && policies.Len() > 1:
		return ""
	case policies != nil && !policies.Policy(0).Key.IsZero():
		return inWords(policies.Policy(0).Key)
	case len(in.readers) > 0 && in.readers[0].Source().Format != "JSON lines":
		return "address"
	}
	return ""
}

// inWords names the fields of a key, and those of its alternatives.
func inWords(key config.Template) string {
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
	return "auto, " + strings.Join(traffic.FormatNames(), ", ")
}
