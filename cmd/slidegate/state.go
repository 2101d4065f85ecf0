package main

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/slidegate/slidegate/memstore"
)

// stateCommand groups the commands for the folder of --state.
type stateCommand struct {
	Info stateInfoCommand `cmd:"" help:"Print what a folder has, as JSON. It is read as a whole and not changed, also while a process uses it."`
}

type stateInfoCommand struct {
	Dir string `arg:"" help:"Folder of --state of serve or proxy, or a copy of one."`
}

// Help returns the details in the command's help.
func (*stateInfoCommand) Help() string {
	return "The exit status is 2 if a service could not continue from the folder, so this also checks a copy."
}

// How the records of a folder end.
const (
	endInUse     = "in-use"
	endNew       = "new"
	endClosed    = "closed"
	endKilled    = "killed"
	endPowerLoss = "power-loss"
)

// stateInfo is what state info prints.
type stateInfo struct {
	Process     string          `json:"process,omitempty"`
	Files       int             `json:"files"`
	Bytes       int64           `json:"bytes"`
	Checkpoint  *time.Time      `json:"checkpoint,omitempty"`
	Requests    int             `json:"requests"`
	Until       *time.Time      `json:"until,omitempty"`
	End         string          `json:"end"`
	Unrecorded  bool            `json:"unrecorded"`
	Skipped     int             `json:"skipped"`
	Dropped     int64           `json:"dropped_bytes"`
	DroppedFrom string          `json:"dropped_from,omitempty"`
	Keys        int64           `json:"keys"`
	Settlements int64           `json:"settlements"`
	Limits      []stateLimit    `json:"limits"`
	Documents   []stateDocument `json:"documents"`
}

type stateLimit struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Shape     string `json:"shape"`
	Keys      int64  `json:"keys"`
	Forgotten int64  `json:"forgotten"`
}

type stateDocument struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// Run prints what the folder has.
func (s *stateInfoCommand) Run(c *console) error {
	found, err := memstore.Inspect(s.Dir)
	if err != nil {
		return err
	}
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	return e.Encode(infoOf(&found))
}

func infoOf(c *memstore.Contents) *stateInfo {
	i := &stateInfo{
		Process: c.Process, Files: c.Files, Bytes: c.Bytes, Checkpoint: timeOrNone(c.Checkpoint), Requests: c.Requests, Until: timeOrNone(c.Until),
		Unrecorded: c.Unrecorded, Skipped: c.Skipped, Dropped: c.Dropped, DroppedFrom: c.DroppedFrom, Keys: c.Keys, Settlements: c.Settlements,
		Limits: []stateLimit{}, Documents: []stateDocument{},
	}
	switch {
	case c.Process != "":
		i.End = endInUse
	case c.Closed:
		i.End = endClosed
	case c.New:
		i.End = endNew
	case c.PowerLoss:
		i.End = endPowerLoss
	default:
		i.End = endKilled
	}
	for _, l := range c.Limits {
		i.Limits = append(i.Limits, stateLimit{l.Namespace, l.Name, l.Shape, l.Keys, l.Forgotten})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Documents)) {
		i.Documents = append(i.Documents, stateDocument{name, c.Documents[name]})
	}
	return i
}

func timeOrNone(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
