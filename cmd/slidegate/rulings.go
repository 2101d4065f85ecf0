package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/rulingsapi"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/rulings"
)

// operatorFlags are the flags of commands that change rulings.
type operatorFlags struct {
	Why string `placeholder:"TEXT" help:"Reason, for the log; free text." group:"Ruling"`
	Who string `placeholder:"NAME" help:"Name of the operator, for the log of a service without admin tokens, which marks it as not verified; otherwise the log has the name of the token. (default: you, as user@host)" group:"Ruling"`
	keyFlags
}

// endFlags set the end of a ruling.
type endFlags struct {
	For   string `placeholder:"1h30m" help:"Duration of the ruling, such as 15m or 7d. (default: until it is ended)" group:"Ruling" xor:"end"`
	Until string `placeholder:"18:00" help:"End of the ruling: the next occurrence of a time of day, or a time such as 2026-01-31T18:00:00Z." group:"Ruling" xor:"end"`
}

// blockCommand blocks a key.
type blockCommand struct {
	Key string `arg:"" help:"Who to block: a user, an address, a prefix such as 203.0.113.0/24, or a key in quotes."`
	endFlags
	operatorFlags
}

// Help returns the details in the command's help.
func (*blockCommand) Help() string {
	return "All instances that share the store refuse the key within two seconds. A block takes precedence over limits, lists and overrides, holds while the store is down, and replaces an override of the key. See also unblock, and rulings, which lists what is in force."
}

// Run blocks the key and prints the ruling.
func (b *blockCommand) Run(ctx context.Context, c *console) error {
	return b.rule(ctx, c, &b.endFlags, rulingsapi.Change{Key: operatorKey(b.Key), Kind: rulings.Block})
}

// overrideCommand gives a key other limits.
type overrideCommand struct {
	Key       string   `arg:"" help:"Whose limits to replace: a user, an address, a prefix, or a key in quotes."`
	Limits    []string `arg:"" optional:"" name:"limit" help:"New limit of the key, such as 1000/1m. If there are several, all apply."`
	Unlimited bool     `help:"Admit all requests and charge nothing." group:"Ruling"`
	End       bool     `help:"End the override of the key." group:"Ruling"`
	endFlags
	operatorFlags
}

// Help returns the details in the command's help.
func (*overrideCommand) Help() string {
	return "All instances that share the store apply the override within two seconds. What the key has used still counts for new limits with the same window as a limit of the policy. An override replaces a block of the key."
}

// Run sets or ends the override and prints the ruling.
func (o *overrideCommand) Run(ctx context.Context, c *console) error {
	ways := 0
	for _, given := range []bool{len(o.Limits) > 0, o.Unlimited, o.End} {
		if given {
			ways++
		}
	}
	switch key := operatorKey(o.Key); {
	case ways != 1:
		return errors.New("give limits, such as 1000/1m, or --unlimited, or --end")
	case o.End && o.endFlags != endFlags{}:
		return errors.New("--end ends the override now; leave out --for and --until")
	case o.End:
		return o.end(ctx, c, rulingsapi.Change{Key: key, Kind: rulingsapi.Override})
	case o.Unlimited:
		return o.rule(ctx, c, &o.endFlags, rulingsapi.Change{Key: key, Kind: rulings.Unlimited})
	default:
		return o.rule(ctx, c, &o.endFlags, rulingsapi.Change{Key: key, Kind: rulings.Limits, Limits: o.Limits})
	}
}

// unblockCommand ends a block.
type unblockCommand struct {
	Key string `arg:"" help:"Who to unblock, written as for block."`
	operatorFlags
}

// Run unblocks the key and prints the ruling that it has ended.
func (u *unblockCommand) Run(ctx context.Context, c *console) error {
	return u.end(ctx, c, rulingsapi.Change{Key: operatorKey(u.Key), Kind: rulings.Block})
}

// rule puts a ruling in force.
func (f *operatorFlags) rule(ctx context.Context, c *console, end *endFlags, request rulingsapi.Change) (err error) {
	if request.Until, err = end.time(time.Now()); err != nil {
		return err
	}
	if end.For != "" {
		if _, err := rulingsapi.ParseFor(end.For); err != nil {
			return fmt.Errorf("--for: %w", err)
		}
		request.For = end.For
	}
	var reply struct {
		Ruling   rulingsapi.Listed
		Replaced *rulings.Ruling
		gate.Reach
	}
	if done, err := f.send(ctx, c, "/v1/rulings", request, &reply); done || err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%q under the policy %s: %s\n", reply.Ruling.Key, reply.Ruling.Policy, effect(&reply.Ruling.Ruling, time.Now()))
	if reply.Replaced != nil {
		fmt.Fprintf(c.out, "in place of: %s%s\n", effect(reply.Replaced, time.Now()), decidedBy(reply.Replaced))
	}
	if reply.Ruling.Note != "" {
		fmt.Fprintf(c.out, "but %s\n", reply.Ruling.Note)
	}
	writeReach(c.out, &reply.Reach)
	writeNotes(c.out, reply.Notes)
	return nil
}

// writeReach prints which keys of a ruling were seen.
func writeReach(to io.Writer, reach *gate.Reach) {
	switch {
	case reach.Seen == nil:
		fmt.Fprintln(to, "seen:    not known: the store did not answer, or it is a prefix of which this instance has refused no address")
	case len(reach.Seen) == 0:
		fmt.Fprintln(to, "seen:    no: the limits of the policy count nothing for it now, and this instance has refused none; check the spelling")
	default:
		fmt.Fprintf(to, "seen:    %s\n", quoteAll(reach.Seen))
	}
}

func writeNotes(to io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintf(to, "note:    %s\n", note)
	}
}

// quoteAll quotes keys, and separates them by commas.
func quoteAll(keys []string) string {
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = strconv.Quote(key)
	}
	return strings.Join(quoted, ", ")
}

// end ends a ruling.
func (f *operatorFlags) end(ctx context.Context, c *console, request rulingsapi.Change) error {
	var reply rulingsapi.Ended
	if done, err := f.send(ctx, c, "/v1/rulings/clear", request, &reply); done || err != nil || reply.Ended == nil {
		return err
	}
	fmt.Fprintf(c.out, "%q under the policy %s: ended; it was %s%s\n", reply.Ended.Key, reply.Ended.Policy, effect(reply.Ended, time.Now()), decidedBy(reply.Ended))
	writeNotes(c.out, reply.Notes)
	return nil
}

// send sends a change to the service and decodes the response into reply, or prints the JSON if that is the output format.
func (f *operatorFlags) send(ctx context.Context, c *console, path string, request rulingsapi.Change, reply any) (printed bool, err error) {
	request.Policy, request.Who, request.Why = f.Policy, cmp.Or(f.Who, currentUser()), f.Why
	return f.keyFlags.send(ctx, c, http.MethodPost, path, request, reply)
}

// currentUser returns the user as user@host, for the log.
func currentUser() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // without it, the user name must suffice
	return strings.TrimSuffix(cmp.Or(name, "unknown")+"@"+host, "@")
}

// time returns the end of a ruling in the format of the service, or "" if Until is not given.
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

// effect describes what a ruling does, and until when.
func effect(r *rulings.Ruling, now time.Time) string {
	return ruled.Effect(r) + ", " + until(r, now)
}

// until describes when a ruling ends, in local time.
func until(r *rulings.Ruling, now time.Time) string {
	if r.Until.IsZero() {
		return "until it is ended"
	}
	return fmt.Sprintf("until %s (%v)", r.Until.Local().Format(time.DateTime), r.Until.Sub(now).Round(time.Second))
}

// decidedBy describes who made a ruling, and why.
func decidedBy(r *rulings.Ruling) string {
	if r.Why == "" {
		return ", by " + r.Who
	}
	return ", by " + r.Who + ": " + r.Why
}

// rulingsCommand lists the rulings in force, or the log of changes.
type rulingsCommand struct {
	Log bool `help:"Show the log of changes, newest first, and who made them."`
	N   int  `short:"n" default:"100" help:"Number of changes to show; the log has up to 1000."`
	serviceFlags
}

// Run prints the list.
func (r *rulingsCommand) Run(ctx context.Context, c *console) error {
	var reply struct {
		Rulings []rulingsapi.Listed
		Log     []rulings.Ruling
	}
	if r.N < 1 {
		return fmt.Errorf("-n: must be 1 or more, not %d", r.N)
	}
	path := "/v1/rulings"
	if r.Log {
		path = fmt.Sprintf("/v1/rulings/log?n=%d", r.N)
	}
	if done, err := r.send(ctx, c, http.MethodGet, path, nil, &reply); done || err != nil {
		return err
	}
	if r.Log {
		return writeLog(c.out, reply.Log)
	}
	return writeRulings(c.out, reply.Rulings)
}

func writeRulings(to io.Writer, all []rulingsapi.Listed) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no rulings are in force")
		return err
	}
	rows := [][]string{{"policy", "key", "ruling", "until", "who", "why"}}
	for i := range all {
		r := &all[i]
		why := r.Why
		if r.Note != "" {
			why = strings.TrimSpace(why + " [" + r.Note + "]")
		}
		rows = append(rows, []string{r.Policy, strconv.Quote(r.Key), ruled.Effect(&r.Ruling), untilCell(&r.Ruling), r.Who, why})
	}
	return writeTable(to, rows)
}

func writeLog(to io.Writer, log []rulings.Ruling) error {
	if len(log) == 0 {
		_, err := fmt.Fprintln(to, "no changes yet")
		return err
	}
	rows := [][]string{{"when", "who", "policy", "key", "ruling", "until", "why"}}
	for i := range log {
		r := &log[i]
		what, end := ruled.Effect(r), untilCell(r)
		switch r.Kind {
		case rulings.Clear:
			what, end = "ended", ""
		case rulings.Reset:
			what, end = "usage reset", ""
		}
		rows = append(rows, []string{r.At.Local().Format(time.DateTime), r.Who, r.Policy, strconv.Quote(r.Key), what, end, r.Why})
	}
	return writeTable(to, rows)
}

func untilCell(r *rulings.Ruling) string {
	if r.Until.IsZero() {
		return "-"
	}
	return r.Until.Local().Format(time.DateTime)
}
