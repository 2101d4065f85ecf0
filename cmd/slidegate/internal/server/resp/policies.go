package resp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

const allowName = "sg.allow"

// policyCommands returns the commands about policies.
func policyCommands() []*command {
	return []*command{
		{name: allowName, arity: -3, max: 4, key: 2, own: true, run: (*conn).allow,
			usage: "policy key [cost]", summary: "Takes cost units (default 1), all or none; a cost of 0 checks whether a unit is left."},
		{name: "sg.allowupto", arity: 4, key: 2, own: true, run: (*conn).allowUpTo,
			usage: "policy key cost", summary: "Takes as much of cost units as the limits admit now, at least one."},
		{name: "sg.peek", arity: -3, max: 4, key: 2, own: true, run: (*conn).peek,
			usage: "policy key [cost]", summary: "Returns what SG.ALLOW would return, and takes nothing."},
		{name: "sg.charge", arity: -3, max: 4, key: 2, own: true, run: (*conn).charge,
			usage: "policy key [cost]", summary: "Charges cost units without a check, even beyond the quota."},
		{name: "sg.refund", arity: -3, max: 4, key: 2, own: true, admin: true, run: (*conn).refund,
			usage: "policy key [cost]", summary: "Refunds cost units, the oldest first; granted is how many."},
		{name: "sg.reset", arity: 3, key: 2, own: true, admin: true, run: (*conn).resetKey,
			usage: "policy key", summary: "Deletes what the key has used."},
		{name: "sg.reserve", arity: 4, key: 2, own: true, run: (*conn).reserve,
			usage: "policy key cost", summary: "Takes an estimate, and also returns a reservation, or null."},
		{name: "sg.acquire", arity: -3, max: 4, key: 2, own: true, run: (*conn).acquire,
			usage: "policy key [cost]", summary: "Takes slots of in-flight limits, and cost units of others; also returns a reservation, and how long it holds them."},
		{name: "sg.renew", arity: 3, own: true, run: (*conn).renew,
			usage: "policy reservation", summary: "Holds the slots of a reservation for another time to live; allowed is 0 if one was lost."},
		{name: "sg.release", arity: 3, own: true, run: (*conn).release,
			usage: "policy reservation", summary: "Releases the slots of a reservation."},
		{name: "sg.settle", arity: -4, own: true, run: (*conn).settle,
			usage: "policy reservation cost|limit=cost [limit=cost ...]", summary: "Replaces a reservation's estimates with what was used."},
		{name: "sg.cancel", arity: 3, own: true, run: (*conn).cancelReservation,
			usage: "policy reservation", summary: "Refunds all of a reservation."},
		{name: "sg.policies", arity: 1, own: true, run: (*conn).listPolicies,
			summary: "Lists the names of the policies."},
	}
}

// batch holds SG.ALLOWs that are decided together. Its memory is reused.
type batch struct {
	requests []gate.Request
	verdicts []gate.Verdict
	errs     []error
}

// allow runs SG.ALLOW.
func (c *conn) allow(args [][]byte) {
	req, ok := c.readRequest(args)
	switch {
	case !ok:
		c.decide()
		c.failCost()
	case c.server.opts.Batch:
		if c.batch == nil {
			c.batch = c.server.batches.Get().(*batch)
		}
		c.batch.requests = append(c.batch.requests, req)
	default:
		v, err := c.server.policies.Allow(c.ctx, req)
		c.replyVerdict(&v, err)
	}
}

// decide decides the pending SG.ALLOWs, in order.
func (c *conn) decide() {
	b := c.batch
	if b == nil {
		return
	}
	n := len(b.requests)
	for len(b.errs) < n {
		b.verdicts, b.errs = append(b.verdicts, gate.Verdict{}), append(b.errs, nil)
	}
	if n == 1 { // stores may have a faster way for a single request
		b.verdicts[0], b.errs[0] = c.server.policies.Allow(c.ctx, b.requests[0])
	} else {
		c.server.policies.AllowBatch(c.ctx, b.requests, b.verdicts[:n], b.errs[:n])
	}
	running := c.running
	c.running = true
	for i := range n {
		c.replyVerdict(&b.verdicts[i], b.errs[i])
	}
	c.running = running
	c.batch = nil
	clear(b.requests) // drops the keys
	clear(b.verdicts[:n])
	clear(b.errs[:n])
	b.requests = b.requests[:0]
	c.server.batches.Put(b)
}

// readRequest reads the policy, the key and the optional cost.
func (c *conn) readRequest(args [][]byte) (req gate.Request, ok bool) {
	req = gate.Request{Policy: c.policyName(args[1]), Key: string(args[2]), Cost: 1, Listener: gate.RESP}
	if len(args) > 3 {
		req.Cost, ok = readCost(args[3])
		return req, ok
	}
	return req, true
}

// readCost reads a cost.
func readCost(text []byte) (cost int64, ok bool) {
	cost, ok = parseInt(text)
	return cost, ok && cost >= 0 && cost <= rule.MaxQuota
}

// failCost replies to an invalid cost.
func (c *conn) failCost() { c.fail("cost: must be a whole number from 0 to 9007199254740991") }

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

// replyVerdict replies with a verdict.
func (c *conn) replyVerdict(v *gate.Verdict, err error) {
	if err != nil {
		c.replyError(err)
		return
	}
	if isClosed(v) {
		c.replyError(errClosed)
		return
	}
	c.out = appendVerdict(appendArray(c.out, verdictNumbers), v)
}

// replyError replies with an error: ERR if the request was invalid, UNSETTLED if the store cannot remember a settlement,
// and STORE if the store did not answer. It uses no error code on which clients retry automatically, since an
// unanswered request may have been charged.
func (c *conn) replyError(err error) {
	kind := "STORE"
	if errors.Is(err, slidegate.ErrUnsettled) {
		kind = "UNSETTLED" // the store answered, and nothing was changed
	}
	for _, invalid := range []error{gate.ErrPolicy, gate.ErrNoPolicy, gate.ErrSlots, gate.ErrNoSlots, slidegate.ErrCost, slidegate.ErrLimit, slidegate.ErrReservation,
		slidegate.ErrConflict, store.ErrUnsupported} {
		if errors.Is(err, invalid) {
			kind = "ERR"
		}
	}
	c.refuse(kind, err.Error())
}

func (c *conn) allowUpTo(args [][]byte) {
	if req, ok := c.readRequest(args); ok {
		v, err := c.server.policies.AllowUpTo(c.ctx, req)
		c.replyVerdict(&v, err)
		return
	}
	c.failCost()
}

func (c *conn) peek(args [][]byte) {
	if req, ok := c.readRequest(args); ok {
		v, err := c.server.policies.Peek(c.ctx, req)
		c.replyVerdict(&v, err)
		return
	}
	c.failCost()
}

func (c *conn) charge(args [][]byte) {
	if req, ok := c.readRequest(args); ok {
		v, err := c.server.policies.Charge(c.ctx, req)
		c.replyVerdict(&v, err)
		return
	}
	c.failCost()
}

func (c *conn) refund(args [][]byte) {
	if req, ok := c.readRequest(args); ok {
		v, err := c.server.policies.Refund(c.ctx, req)
		c.changed("refund", req, err)
		c.replyVerdict(&v, err)
		return
	}
	c.failCost()
}

func (c *conn) resetKey(args [][]byte) {
	req, _ := c.readRequest(args)
	err := c.server.policies.Reset(c.ctx, req)
	c.changed("reset", req, err)
	c.replyOK(err)
}

// changed reports an operation that was carried out.
func (c *conn) changed(operation string, req gate.Request, err error) {
	if report := c.server.opts.OnChange; err == nil && report != nil {
		report(c.token.Load(), operation, req)
	}
}

// replyOK replies OK, or with the error.
func (c *conn) replyOK(err error) {
	if err != nil {
		c.replyError(err)
		return
	}
	c.ok()
}

func (c *conn) reserve(args [][]byte) { c.hold(args, verdictNumbers+1, c.server.policies.Reserve) }

// acquire runs SG.ACQUIRE, which also returns within how many microseconds the reservation must be renewed.
func (c *conn) acquire(args [][]byte) { c.hold(args, verdictNumbers+2, c.server.policies.Acquire) }

// hold replies with a verdict, a reservation and, if there are that many parts, the reservation's time to live.
func (c *conn) hold(args [][]byte, parts int, reserve func(context.Context, gate.Request) (slidegate.Reservation, gate.Verdict, error)) {
	req, ok := c.readRequest(args)
	if !ok {
		c.failCost()
		return
	}
	r, v, err := reserve(c.ctx, req)
	var text []byte
	if err == nil && v.Decision.Allowed {
		text, err = json.Marshal(r)
	}
	if err == nil && isClosed(&v) {
		err = errClosed
	}
	if err != nil {
		c.replyError(err)
		return
	}
	c.out = appendVerdict(appendArray(c.out, parts), &v)
	if text == nil {
		c.appendNull()
	} else {
		c.out = appendBulk(c.out, text)
		c.unsent = append(c.unsent, r)
	}
	if parts > verdictNumbers+1 {
		c.out = appendInt(c.out, gate.TimeToLive(&r).Microseconds())
	}
}

// cancelUnsent cancels the reservations of a client that left before it got them.
func (c *conn) cancelUnsent() {
	for _, r := range c.unsent {
		c.server.policies.CancelUnsent(c.ctx, r)
	}
}

func (c *conn) settle(args [][]byte) {
	r, ok := c.readReservation(args[2])
	if !ok {
		return
	}
	used, ok := c.readUsed(&r, args[3:])
	if !ok {
		return
	}
	c.replySettlement(c.server.policies.Settle(c.ctx, c.policyName(args[1]), r, used...))
}

// replySettlement replies with the result of ending a reservation: whether it had ended before, and what was refunded for each
// charge.
func (c *conn) replySettlement(done gate.Settlement, err error) {
	if err != nil {
		c.replyError(err)
		return
	}
	c.out = appendBool(appendArray(c.out, 1+len(done.Limits)), done.Repeated)
	for i := range done.Limits {
		c.out = appendInt(c.out, done.Limits[i].Returned)
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
			c.failCost()
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

func (c *conn) cancelReservation(args [][]byte) {
	if r, ok := c.readReservation(args[2]); ok {
		c.replySettlement(c.server.policies.Cancel(c.ctx, c.policyName(args[1]), r))
	}
}

func (c *conn) release(args [][]byte) {
	if r, ok := c.readReservation(args[2]); ok {
		c.replySettlement(c.server.policies.Release(c.ctx, c.policyName(args[1]), r))
	}
}

func (c *conn) renew(args [][]byte) {
	if r, ok := c.readReservation(args[2]); ok {
		v, err := c.server.policies.Renew(c.ctx, c.policyName(args[1]), r)
		c.replyVerdict(&v, err)
	}
}

// readReservation reads what SG.RESERVE or SG.ACQUIRE returned. Errors give no details, since it contains a key, except
// for another version.
func (c *conn) readReservation(text []byte) (r slidegate.Reservation, ok bool) {
	err := json.Unmarshal(text, &r)
	switch {
	case errors.Is(err, slidegate.ErrReservation):
		c.replyError(err)
	case err != nil:
		c.fail("reservation: must be the JSON text that SG.RESERVE or SG.ACQUIRE returned")
	}
	return r, err == nil
}

func (c *conn) listPolicies([][]byte) {
	names := c.server.policies.Policies()
	c.out = appendArray(c.out, len(names))
	for _, name := range names {
		c.out = appendBulk(c.out, name)
	}
}
