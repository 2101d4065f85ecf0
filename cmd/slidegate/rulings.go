package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// operatorFlags are those of commands that change what a running service does.
type operatorFlags struct {
	Policy string `placeholder:"NAME" help:"The policy; envoy:DOMAIN for a descriptor of Envoy, whose key is key=value,key=value. (default: the service's)" group:"What"`
	Why    string `placeholder:"TEXT" help:"The reason, for the log." group:"What"`
	Who    string `placeholder:"NAME" help:"Who decides, for the log. (default: you, as user@host)" group:"What"`
	printingFlags
}

// printingFlags are adminFlags and how to print the answer.
type printingFlags struct {
	adminFlags
	Format string `enum:"text,json" default:"text" help:"How to print the answer: text, json." group:"Whom to ask"`
}

// endFlags say when a ruling ends.
type endFlags struct {
	For   string `placeholder:"1h30m" help:"How long, such as 15m or 7d. (default: until it is ended)" group:"What" xor:"end"`
	Until string `placeholder:"18:00" help:"Until when: a time of day, the next to come, or a time such as 2026-01-31T18:00:00Z." group:"What" xor:"end"`
}

// blockCommand refuses a key.
type blockCommand struct {
	Key string `arg:"" help:"Whom to refuse, also as top prints it."`
	endFlags
	operatorFlags
}

// Help is what the command's help adds.
func (*blockCommand) Help() string {
	return "All instances that share the store refuse the key within two seconds, before any limit, list or override, and also while the store is down. It takes the place of an override of the key. See also unblock, and rulings for what is in force."
}

// Run blocks, and tells.
func (b *blockCommand) Run(ctx context.Context, c *console) error {
	return b.rule(ctx, c, &b.endFlags, change{Key: asPrinted(b.Key), Kind: rulings.Block})
}

// overrideCommand gives a key other limits.
type overrideCommand struct {
	Key       string   `arg:"" help:"Whose limits to change, also as top prints it."`
	Limits    []string `arg:"" optional:"" name:"limit" help:"In place of the limits that the key has, such as 1000/1m. With several, all hold."`
	Unlimited bool     `help:"Admit everything, and charge nothing." group:"What"`
	End       bool     `help:"End the override that the key has." group:"What"`
	endFlags
	operatorFlags
}

// Help is what the command's help adds.
func (*overrideCommand) Help() string {
	return "All instances that share the store obey within two seconds. What the key has used still counts, where a limit has the window of one that the policy has. It takes the place of a block of the key."
}

// Run overrides, and tells.
func (o *overrideCommand) Run(ctx context.Context, c *console) error {
	ways := 0
	for _, given := range []bool{len(o.Limits) > 0, o.Unlimited, o.End} {
		if given {
			ways++
		}
	}
	switch key := asPrinted(o.Key); {
	case ways != 1:
		return errors.New("give limits, such as 1000/1m, or --unlimited, or --end")
	case o.End && o.endFlags != endFlags{}:
		return errors.New("--end ends the override now: leave out --for and --until")
	case o.End:
		return o.end(ctx, c, change{Key: key, Kind: rulings.Override})
	case o.Unlimited:
		return o.rule(ctx, c, &o.endFlags, change{Key: key, Kind: rulings.Unlimited})
	default:
		return o.rule(ctx, c, &o.endFlags, change{Key: key, Kind: rulings.Limits, Limits: o.Limits})
	}
}

// unblockCommand ends a block.
type unblockCommand struct {
	Key string `arg:"" help:"Whom to let in again, also as top prints it."`
	operatorFlags
}

// Run unblocks, and tells.
func (u *unblockCommand) Run(ctx context.Context, c *console) error {
	return u.end(ctx, c, change{Key: asPrinted(u.Key), Kind: rulings.Block})
}

// change is what the service is asked to change.
type change struct {
	Policy string       `json:"policy,omitempty"`
	Key    string       `json:"key"`
	Kind   rulings.Kind `json:"kind"`
	Limits []string     `json:"limits,omitempty"`
	For    string       `json:"for,omitempty"`
	Until  string       `json:"until,omitempty"`
	Who    string       `json:"who"`
	Why    string       `json:"why,omitempty"`
}

// listedRuling is a ruling as the service tells of it.
type listedRuling struct {
	rulings.Ruling
	Note string
}

// rule asks the service to put a ruling in force.
func (f *operatorFlags) rule(ctx context.Context, c *console, end *endFlags, asked change) (err error) {
	if asked.Until, err = end.time(time.Now()); err != nil {
		return err
	}
	if end.For != "" {
		if _, err := rulings.ParseFor(end.For); err != nil {
			return fmt.Errorf("--for: %w", err)
		}
		asked.For = end.For
	}
	var told struct {
		Ruling   listedRuling
		Replaced *rulings.Ruling
	}
	if done, err := f.send(ctx, c, "/v1/rulings", asked, &told); done || err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%q under the policy %s: %s\n", told.Ruling.Key, told.Ruling.Policy, effect(&told.Ruling.Ruling, time.Now()))
	if told.Replaced != nil {
		fmt.Fprintf(c.out, "in place of: %s%s\n", effect(told.Replaced, time.Now()), by(told.Replaced))
	}
	if told.Ruling.Note != "" {
		fmt.Fprintf(c.out, "but %s\n", told.Ruling.Note)
	}
	return nil
}

// end asks the service to end a ruling.
func (f *operatorFlags) end(ctx context.Context, c *console, asked change) error {
	var told struct{ Ended *rulings.Ruling }
	if done, err := f.send(ctx, c, "/v1/rulings/clear", asked, &told); done || err != nil || told.Ended == nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "%q under the policy %s: ended, it was %s%s\n", told.Ended.Key, told.Ended.Policy, effect(told.Ended, time.Now()), by(told.Ended))
	return err
}

// send asks the service for a change and reads its answer, or prints it as it is.
func (f *operatorFlags) send(ctx context.Context, c *console, path string, asked change, told any) (printed bool, err error) {
	asked.Policy, asked.Who, asked.Why = f.Policy, cmp.Or(f.Who, whoIsThis()), f.Why
	return f.printingFlags.send(ctx, c, http.MethodPost, path, asked, told)
}

// send asks the service and reads its answer, or prints it as it is if that is asked for.
func (f *printingFlags) send(ctx context.Context, c *console, method, path string, body, told any) (printed bool, err error) {
	asked, err := newClient(f.Server, f.Token, f.serverTLS)
	if err != nil {
		return false, err
	}
	defer asked.close()
	status, text, err := asked.sendUpTo(ctx, maxRulingsText, method, path, body)
	switch {
	case err != nil:
		return false, err
	case status != http.StatusOK:
		return false, asked.adminProblem(status, text)
	case f.Format == "json":
		_, err := fmt.Fprintln(c.out, strings.TrimSpace(string(text)))
		return true, err
	}
	if err := json.Unmarshal(text, told); err != nil {
		return false, fmt.Errorf("%s: this is not an answer of a Slidegate service: %w", asked.base, err)
	}
	return false, nil
}

// maxRulingsText is how long a list of all rulings may be.
const maxRulingsText = 64 << 20

// whoIsThis names the user, for the log.
func whoIsThis() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // without it, the name of the user has to do
	return strings.TrimSuffix(cmp.Or(name, "unknown")+"@"+host, "@")
}

// time returns when a ruling ends as the service reads it; empty if Until is not given.
func (f *endFlags) time(now time.Time) (string, error) {
	if f.Until == "" {
		return "", nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if at, err := time.ParseInLocation(layout, f.Until, now.Location()); err == nil {
			end := time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
			if !end.After(now) {
				end = end.AddDate(0, 0, 1)
			}
			return end.Format(time.RFC3339), nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if end, err := time.ParseInLocation(layout, f.Until, now.Location()); err == nil {
			return end.Format(time.RFC3339), nil
		}
	}
	return "", fmt.Errorf("--until: must be a time of day such as 18:00, or a time such as 2026-01-31T18:00:00Z, not %q", f.Until)
}

// effect says what a ruling does, and how long.
func effect(r *rulings.Ruling, now time.Time) string {
	return deed(r) + ", " + until(r, now)
}

func deed(r *rulings.Ruling) string {
	switch r.Kind {
	case rulings.Block:
		return "blocked"
	case rulings.Unlimited:
		return "unlimited"
	case rulings.Limits:
		return strings.Join(r.Limits, ", ")
	}
	return string(r.Kind)
}

// until says when a ruling ends, in local time.
func until(r *rulings.Ruling, now time.Time) string {
	if r.Until.IsZero() {
		return "until it is ended"
	}
	return fmt.Sprintf("until %s (%v)", r.Until.Local().Format(time.DateTime), r.Until.Sub(now).Round(time.Second))
}

// by says who decided, and why.
func by(r *rulings.Ruling) string {
	if r.Why == "" {
		return ", by " + r.Who
	}
	return ", by " + r.Who + ": " + r.Why
}

// rulingsCommand lists what is in force, or what was changed.
type rulingsCommand struct {
	Log bool `help:"Show the changes, the newest first, and who made them."`
	N   int  `short:"n" default:"100" help:"How many changes to show, at most 1000."`
	printingFlags
}

// Run lists, once.
func (r *rulingsCommand) Run(ctx context.Context, c *console) error {
	var told struct {
		Rulings []listedRuling
		Log     []rulings.Ruling
	}
	path := "/v1/rulings"
	if r.Log {
		path = fmt.Sprintf("/v1/rulings/log?n=%d", r.N)
	}
	if done, err := r.send(ctx, c, http.MethodGet, path, nil, &told); done || err != nil {
		return err
	}
	var b strings.Builder
	switch {
	case r.Log:
		writeLog(&b, told.Log)
	default:
		writeRulings(&b, told.Rulings)
	}
	_, err := io.WriteString(c.out, b.String())
	return err
}

func writeRulings(to io.Writer, all []listedRuling) {
	if len(all) == 0 {
		fmt.Fprintln(to, "no rulings are in force")
		return
	}
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "policy\tkey\truling\tuntil\twho\twhy")
	for i := range all {
		r := &all[i]
		why := r.Why
		if r.Note != "" {
			why = strings.TrimSpace(why + " [" + r.Note + "]")
		}
		fmt.Fprintf(t, "%s\t%q\t%s\t%s\t%s\t%s\n", r.Policy, r.Key, deed(&r.Ruling), untilCell(&r.Ruling), r.Who, why)
	}
	_ = t.Flush() // it is written to memory
}

func writeLog(to io.Writer, log []rulings.Ruling) {
	if len(log) == 0 {
		fmt.Fprintln(to, "nothing was changed yet")
		return
	}
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "when\twho\tpolicy\tkey\truling\tuntil\twhy")
	for i := range log {
		r := &log[i]
		what, end := deed(r), untilCell(r)
		if r.Kind == rulings.Clear {
			what, end = "ended", ""
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%q\t%s\t%s\t%s\n", r.At.Local().Format(time.DateTime), r.Who, r.Policy, r.Key, what, end, r.Why)
	}
	_ = t.Flush() // it is written to memory
}

func untilCell(r *rulings.Ruling) string {
	if r.Until.IsZero() {
		return "-"
	}
	return r.Until.Local().Format(time.DateTime)
}
