package resp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

const allowName = "sg.allow"

// batch holds SG.ALLOWs that are decided together. Its memory is reused.
type batch struct {
	requests  []gate.Request
	decisions []policy.Decision
	errs      []error
}

// allow runs SG.ALLOW.
func (c *conn) allow(cmd *command, args [][]byte) {
	if !c.server.opts.Batch || len(args) >= 5 && waits(args[3:]) {
		c.decide()
		c.decideKey(cmd, args)
		return
	}
	req, problem := c.readRequest(cmd, args)
	if problem != "" {
		c.decide()
		c.fail(problem)
		return
	}
	if c.batch == nil {
		c.batch = c.server.batches.Get().(*batch)
	}
	c.batch.requests = append(c.batch.requests, req)
}

// decide decides the pending SG.ALLOWs, in order.
func (c *conn) decide() {
	b := c.batch
	if b == nil {
		return
	}
	n := len(b.requests)
	for len(b.errs) < n {
		b.decisions, b.errs = append(b.decisions, policy.Decision{}), append(b.errs, nil)
	}
	if n == 1 { // stores may have a faster way for a single request
		b.decisions[0], b.errs[0] = c.server.policies.Do(c.ctx, gate.Allow, b.requests[0])
	} else {
		c.server.policies.AllowBatch(c.ctx, b.requests, b.decisions[:n], b.errs[:n])
	}
	running := c.running
	c.running = true
	for i := range n {
		c.replyDecision(&b.decisions[i], b.errs[i])
	}
	c.running = running
	c.batch = nil
	clear(b.requests) // drops the keys
	clear(b.decisions[:n])
	clear(b.errs[:n])
	b.requests = b.requests[:0]
	c.server.batches.Put(b)
}

// decideKey runs a command about a key: the gate decides, and the reply is the decision, or OK.
func (c *conn) decideKey(cmd *command, args [][]byte) {
	req, problem := c.readRequest(cmd, args)
	if problem != "" {
		c.fail(problem)
		return
	}
	d, err := c.server.policies.Do(c.ctx, cmd.op, req)
	if report := c.server.opts.OnChange; err == nil && report != nil && cmd.rights&admin != 0 {
		report(c.token.Load(), strings.TrimPrefix(cmd.name, "sg."), req)
	}
	if err == nil && cmd.op == gate.Reset {
		c.ok()
		return
	}
	c.replyDecision(&d, err)
}

// readRequest reads the policy, the key, the cost, and options of two words each, or returns what is wrong.
func (c *conn) readRequest(cmd *command, args [][]byte) (req gate.Request, problem string) {
	req = gate.Request{Policy: c.policyName(args[1]), Key: string(args[2]), Cost: 1, Listener: gate.RESP, Wait: -1}
	options := args[3:]
	switch {
	case len(options) > 0 && (!cmd.countsOnce() || (len(options)%2 == 1 || startsNumber(options[0])) && optionName(options[0]) == ""):
		var ok bool
		if req.Cost, ok = readCost(options[0]); !ok {
			return req, wrongCost
		}
		options = options[1:]
	case -cmd.arity > 3: // it needs a cost
		return req, "wrong number of arguments for '" + cmd.name + "' command"
	}
	for given := options; len(options) > 0; options = options[2:] {
		name := optionName(options[0])
		switch {
		case name == "WAIT" && !cmd.mayWait():
			return req, name + ": not an option of '" + cmd.name + "'; want " + cmd.options()
		case name == "":
			return req, "unknown option '" + quoted(options[0]) + "'; want " + cmd.options()
		case len(options) == 1:
			return req, name + ": the value is missing; want " + cmd.options()
		case repeats(given[:len(given)-len(options)], name):
			return req, name + ": given twice; give it once"
		}
		value := options[1]
		switch name {
		case "ID":
			if req.ID = string(value); req.ID == "" {
				return req, "ID: must not be empty"
			}
		case "WAIT":
			millis, ok := readCost(value)
			if !ok || millis < 1 || millis > maxWait.Milliseconds() {
				return req, "WAIT: must be 1 to 3600000 milliseconds, not '" + quoted(value) + "'; leave it out to wait not at all"
			}
			req.Wait = time.Duration(millis) * time.Millisecond
		}
	}
	return req, ""
}

// optionName returns the option that a word names, or nothing.
func optionName(word []byte) string {
	switch {
	case is(word, "ID"):
		return "ID"
	case is(word, "WAIT"):
		return "WAIT"
	}
	return ""
}

// repeats reports whether an option is among those that were read before.
func repeats(read [][]byte, name string) bool {
	for i := 0; i < len(read); i += 2 {
		if is(read[i], name) {
			return true
		}
	}
	return false
}

func startsNumber(word []byte) bool {
	return len(word) > 0 && (word[0] == '-' || '0' <= word[0] && word[0] <= '9')
}

// maxWait is the longest time that a command may wait.
const maxWait = time.Hour

// mayWait reports whether a command may wait in line until it is admitted. The policy's wait is not for commands: those behind one in a
// pipeline would wait too, without having said so.
func (cmd *command) mayWait() bool { return cmd.countsOnce() && cmd.op != gate.Cancel }

// waits reports whether the words after a key have the option WAIT.
func waits(words [][]byte) bool {
	return slices.ContainsFunc(words, func(word []byte) bool { return is(word, "WAIT") })
}

// countsOnce reports whether a command takes the ID of a call. The others have no options.
func (cmd *command) countsOnce() bool {
	return cmd.op == gate.Allow || cmd.op == gate.Reserve || cmd.op == gate.Acquire || cmd.op == gate.Cancel
}

// options describes the options of a command.
func (cmd *command) options() string {
	if cmd.mayWait() {
		return "WAIT milliseconds, or ID and an id that is not empty"
	}
	return "ID and an id that is not empty"
}

// cancel runs SG.CANCEL, of a reservation or of the call with an ID.
func (c *conn) cancel(cmd *command, args [][]byte) {
	if len(args) == 3 {
		c.endReservation(cmd, args)
		return
	}
	req, problem := c.readRequest(cmd, args)
	switch {
	case problem == "" && (req.ID == "" || req.Cost != 1 || len(args)%2 == 0):
		problem = "wrong number of arguments for '" + cmd.name + "' command"
		fallthrough
	case problem != "":
		c.fail(problem)
		return
	}
	d, err := c.server.policies.Do(c.ctx, cmd.op, req)
	c.replySettled(&d, err)
}

// readCost reads a cost.
func readCost(text []byte) (cost int64, ok bool) {
	cost, ok = parseInt(text)
	return cost, ok && cost >= 0 && cost <= rule.MaxQuota
}

const wrongCost = "cost: must be a whole number from 0 to 9007199254740991"

// policyName converts a policy's name to a string, reusing the string of a recent command.
func (c *conn) policyName(name []byte) string {
	for _, known := range &c.policies {
		if known == string(name) {
			return known
		}
	}
	if len(name) > 256 { // no such policy, and it would be retained
		return string(name)
	}
	c.nextPolicy = (c.nextPolicy + 1) % len(c.policies)
	c.policies[c.nextPolicy] = string(name)
	return c.policies[c.nextPolicy]
}

// replyDecision replies with a decision, unless there is none.
func (c *conn) replyDecision(d *policy.Decision, err error) {
	if c.decided(d, err) {
		c.out = appendDecision(appendArray(c.out, decisionNumbers), d)
	}
}

// decided reports whether there is a decision; if not, it replies with the reason.
func (c *conn) decided(d *policy.Decision, err error) bool {
	if err == nil && gate.Closed(d) {
		err = gate.ErrClosed
	}
	if err != nil {
		c.replyError(err)
	}
	return err == nil
}

// replyError replies with an error: ERR if the request was invalid, UNSETTLED if the store cannot remember a settlement,
// and STORE if the store did not answer. It uses no error code on which clients retry automatically, since an
// unanswered request may have been charged.
func (c *conn) replyError(err error) {
	kind := "STORE"
	switch {
	case gate.FieldOf(err) != "", errors.Is(err, store.ErrUnsupported):
		kind = "ERR"
	case errors.Is(err, slidegate.ErrUnsettled):
		kind = "UNSETTLED" // the store answered, and nothing was changed
	}
	c.refuse(kind, err.Error())
}

// hold runs SG.RESERVE and SG.ACQUIRE: the reply is a decision, a reservation, and within how many microseconds the
// reservation must be renewed, or 0 if it holds nothing.
func (c *conn) hold(cmd *command, args [][]byte) {
	req, problem := c.readRequest(cmd, args)
	if problem != "" {
		c.fail(problem)
		return
	}
	var r slidegate.Reservation
	req.Reservation = &r
	d, err := c.server.policies.Do(c.ctx, cmd.op, req)
	var text []byte
	if err == nil && r.ID != "" {
		text, err = json.Marshal(r)
	}
	if !c.decided(&d, err) {
		return
	}
	c.out = appendDecision(appendArray(c.out, decisionNumbers+2), &d)
	if text == nil {
		c.appendNull()
	} else {
		c.out = appendBulk(c.out, text)
		if req.ID == "" { // otherwise its client sends it again
			c.unsent = append(c.unsent, r)
		}
	}
	c.out = appendInt(c.out, gate.TimeToLive(&r).Microseconds())
}

// cancelUnsent cancels the reservations of a client that left before it got them.
func (c *conn) cancelUnsent() {
	for _, r := range c.unsent {
		c.server.policies.CancelUnsent(c.ctx, r)
	}
}

// endReservation runs the commands about a reservation. The reply of SG.RENEW is a decision; that of the others is whether
// the reservation had ended before, and what was refunded for each charge.
func (c *conn) endReservation(cmd *command, args [][]byte) {
	var r slidegate.Reservation
	switch err := json.Unmarshal(args[2], &r); {
	case errors.Is(err, slidegate.ErrReservation): // another version
		c.replyError(err)
		return
	case err != nil: // without details, since it contains a key
		c.fail("reservation: must be the JSON text that SG.RESERVE or SG.ACQUIRE returned")
		return
	}
	req := gate.Request{Policy: c.policyName(args[1]), Reservation: &r}
	if cmd.op == gate.Settle {
		var ok bool
		if req.Used, ok = c.readUsed(&r, args[3:]); !ok {
			return
		}
	}
	d, err := c.server.policies.Do(c.ctx, cmd.op, req)
	if cmd.op == gate.Renew {
		c.replyDecision(&d, err)
		return
	}
	c.replySettled(&d, err)
}

// replySettled replies with whether a reservation had ended before, and what was refunded for each charge.
func (c *conn) replySettled(d *policy.Decision, err error) {
	if err != nil {
		c.replyError(err)
		return
	}
	c.out = appendBool(appendArray(c.out, 1+len(d.Decision.Answers)), d.Decision.Flags&rule.Repeated != 0)
	for i := range d.Decision.Answers {
		c.out = appendInt(c.out, d.Decision.Answers[i].Granted)
	}
}

// readUsed reads what was used: limit=cost for some limits, or a number for each charge, in order. A limit's text may
// contain =, so the last one separates.
func (c *conn) readUsed(r *slidegate.Reservation, args [][]byte) (used []slidegate.Used, ok bool) {
	var costs []int64
	for _, text := range args {
		limit, number := "", text
		at := bytes.LastIndexByte(text, '=')
		if at >= 0 {
			limit, number = string(text[:at]), text[at+1:]
		}
		cost, ok := readCost(number)
		switch {
		case !ok:
			c.fail(wrongCost)
			return nil, false
		case at >= 0:
			used = append(used, slidegate.Used{Limit: limit, Cost: cost})
		default:
			costs = append(costs, cost)
		}
	}
	switch {
	case costs == nil:
		return used, true
	case used != nil:
		c.fail("cost: give all as limit=cost, or all as numbers in the order of the reservation's charges")
		return nil, false
	}
	used, err := gate.UsedInOrder(r, costs)
	if err != nil {
		c.replyError(fmt.Errorf("%w: limit=cost", err))
		return nil, false
	}
	return used, true
}

func (c *conn) listPolicies(*command, [][]byte) {
	names := c.server.policies.Policies()
	c.out = appendArray(c.out, len(names))
	for _, name := range names {
		c.out = appendBulk(c.out, name)
	}
}
