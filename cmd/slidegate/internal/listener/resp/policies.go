package resp

import (
	"errors"

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
	if !c.server.opts.Batch {
		c.decideKey(cmd, args)
		return
	}
	req, problem := c.readRequest(args)
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
	req, problem := c.readRequest(args)
	if problem != "" {
		c.fail(problem)
		return
	}
	d, err := c.server.policies.Do(c.ctx, cmd.op, req)
	if err != nil || cmd.op != gate.Reset {
		c.replyDecision(&d, err)
		return
	}
	if report := c.server.opts.OnReset; report != nil {
		report(c.token.Load(), req)
	}
	c.ok()
}

// readRequest reads the policy, the key, the cost, and an ID for SG.ALLOW, or returns what is wrong. A policy's wait is not for
// commands: those behind one in a pipeline would wait too.
func (c *conn) readRequest(args [][]byte) (req gate.Request, problem string) {
	req = gate.Request{Policy: c.policyName(args[1]), Key: string(args[2]), Cost: 1, Listener: gate.RESP, Wait: -1}
	options := args[3:]
	if len(options)%2 == 1 {
		var ok bool
		if req.Cost, ok = readCost(options[0]); !ok {
			return req, wrongCost
		}
		options = options[1:]
	}
	if len(options) > 0 {
		if !is(options[0], "ID") || len(options[1]) == 0 {
			return req, "unknown option '" + quoted(options[0]) + "'; want [cost] [ID id]"
		}
		req.ID = string(options[1])
	}
	return req, ""
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

// replyDecision replies with a decision, unless there is none. If there is none, the code is ERR if the request was invalid, and STORE
// if the store did not answer. It is no code on which clients retry automatically, since an unanswered request may have been charged.
func (c *conn) replyDecision(d *policy.Decision, err error) {
	if err == nil && gate.Closed(d) {
		err = gate.ErrClosed
	}
	switch {
	case err == nil:
		c.out = appendDecision(c.out, d)
	case gate.FieldOf(err) != "", errors.Is(err, store.ErrUnsupported):
		c.fail(err.Error())
	default:
		c.refuse("STORE", err.Error())
	}
}
