package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/generate"
)

// shapeFlags configure synthetic traffic.
type shapeFlags struct {
	Seed     uint64        `default:"1" help:"Seed of the random numbers; the same seed generates the same traffic." group:"Synthetic traffic"`
	Requests int64         `option:"generate.Requests" default:"100000" help:"Number of requests." group:"Synthetic traffic"`
	Keys     int           `option:"generate.Keys" default:"1000" help:"Number of users; scrapers, bots and edge bursters come in addition." group:"Synthetic traffic"`
	Span     time.Duration `option:"generate.Span" placeholder:"1h" help:"Time span of the traffic. (default: 1h, diurnal 168h)" group:"Synthetic traffic"`
	From     time.Time     `option:"generate.From" placeholder:"2026-01-05T00:00:00Z" help:"Start time of the traffic." group:"Synthetic traffic"`
	Edge     time.Duration `option:"generate.Window" default:"1m" help:"Window at whose edges the edge bursters send their bursts." group:"Synthetic traffic"`
	MaxCost  int64         `option:"generate.MaxCost" default:"1" help:"Maximum cost of a request." group:"Synthetic traffic"`
}

func (f *shapeFlags) traffic(shape string) (*generate.Traffic, error) {
	kind, err := generate.ParseShape(shape)
	if err != nil {
		return nil, err
	}
	return generate.New(generate.Options{
		Shape: kind, Seed: f.Seed, Requests: f.Requests, Keys: f.Keys, From: f.From, Span: f.Span, Window: f.Edge, MaxCost: f.MaxCost,
	})
}

// generateCommand writes synthetic traffic as a log.
type generateCommand struct {
	Shape string `option:"generate.Shape" arg:"" optional:"" default:"mixed" help:"${shapes}"`
	As    string `enum:"lines,combined" default:"lines" help:"Format: lines (JSON with t, key and cost) or combined (an access log)."`
	shapeFlags
}

func (g *generateCommand) Run(ctx context.Context, c *console) error {
	generated, err := g.traffic(g.Shape)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.out, 1<<18)
	if g.As == "combined" {
		err = generate.WriteCombined(ctx, out, generated)
	} else {
		err = generate.WriteLines(ctx, out, generated)
	}
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	return err
}

func shapeNames() string {
	var names []string
	for _, s := range generate.Shapes() {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

func shapesHelp() string {
	var names []string
	for _, s := range generate.Shapes() {
		names = append(names, fmt.Sprintf("%s (%s)", s, s.About()))
	}
	return "One of: " + strings.Join(names, "; ") + "."
}
