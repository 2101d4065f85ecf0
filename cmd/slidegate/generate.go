package main

import (
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
	Span     time.Duration `option:"generate.Span" default:"1h" help:"Time span of the traffic." group:"Synthetic traffic"`
}

func (f *shapeFlags) traffic(shape string) (*generate.Traffic, error) {
	return generate.New(generate.Options{Shape: shape, Seed: f.Seed, Requests: f.Requests, Keys: f.Keys, Span: f.Span})
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
	if g.As == "combined" {
		return generate.WriteCombined(ctx, c.out, generated)
	}
	return generate.WriteLines(ctx, c.out, generated)
}

func shapesHelp() string {
	var names []string
	for _, s := range generate.Shapes {
		names = append(names, fmt.Sprintf("%s (%s)", s.Name, s.About))
	}
	return "One of: " + strings.Join(names, "; ") + "."
}
