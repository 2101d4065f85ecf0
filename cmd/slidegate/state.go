package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/memstore"
)

// stateCommand groups the commands for the folder of --state.
type stateCommand struct {
	Info stateInfoCommand `cmd:"" help:"Show what a folder has. It is read as a whole and not changed, also while a process uses it."`
}

type stateInfoCommand struct {
	Dir    string `arg:"" help:"Folder of --state of serve or proxy, or a copy of one."`
	Format string `enum:"text,json" default:"text" help:"Output format: text, json."`
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
	info := infoOf(&found)
	if s.Format == "json" {
		return json.NewEncoder(c.out).Encode(info)
	}
	return info.write(c.out)
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

func (i *stateInfo) write(to io.Writer) error {
	since := strconv.Itoa(i.Requests)
	if i.Checkpoint != nil {
		since += " since the checkpoint"
	}
	if i.Until != nil {
		since += ", until " + i.Until.Format(time.DateTime)
	}
	end := i.end()
	switch last := cmp.Or(i.Until, i.Checkpoint); {
	case i.Unrecorded && last == nil:
		end += "; decisions were not recorded"
	case i.Unrecorded:
		end += "; decisions after " + last.Format(time.DateTime) + " were not recorded"
	}
	rows := [][]string{
		{"used by", cmp.Or(i.Process, "no process")},
		{"files", fmt.Sprintf("%d, %d bytes", i.Files, i.Bytes)},
		{"checkpoint", whenOf(i.Checkpoint)},
		{"requests", since},
		{"end", end},
		{"keys", strconv.FormatInt(i.Keys, 10)},
		{"settlements", strconv.FormatInt(i.Settlements, 10)},
	}
	if i.Dropped > 0 {
		rows = append(rows, []string{"lost", fmt.Sprintf("%d bytes, from %s", i.Dropped, i.DroppedFrom)})
	}
	for _, d := range i.Documents {
		rows = append(rows, []string{"document", fmt.Sprintf("%s, %d bytes", d.Name, d.Bytes)})
	}
	if err := writeTable(to, 0, rows); err != nil || len(i.Limits) == 0 {
		return err
	}
	fmt.Fprintln(to)
	rows = [][]string{{"limit", "keys", "forgotten"}}
	for _, l := range i.Limits {
		name := strings.Join(slices.DeleteFunc([]string{l.Namespace, l.Name, l.Shape}, func(part string) bool { return part == "" }), " ")
		rows = append(rows, []string{name, strconv.FormatInt(l.Keys, 10), strconv.FormatInt(l.Forgotten, 10)})
	}
	return writeTable(to, 0, rows)
}

func whenOf(t *time.Time) string {
	if t == nil {
		return "none"
	}
	return t.Format(time.DateTime)
}

// end describes how the records end.
func (i *stateInfo) end() string {
	switch i.End {
	case endInUse:
		return "in use"
	case endNew:
		return "nothing was recorded yet"
	case endClosed:
		if i.Unrecorded {
			return "closed while not durable"
		}
		return "closed in an orderly way"
	case endPowerLoss:
		return "a loss of power, or a copy from another machine that was not closed"
	}
	return fmt.Sprintf("not closed: the process was killed, or this is a copy that was made while it ran; %d unfinished records are skipped", i.Skipped)
}
