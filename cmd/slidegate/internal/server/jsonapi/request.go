package jsonapi

import (
	"encoding/base64"
	"net/netip"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/rule"
)

// The fields of a request. Each endpoint accepts a prefix of them.
const (
	fieldPolicy = iota
	fieldKey
	fieldKeyBase64
	fieldCost
	fieldAddress
	fieldPlan
	fieldUpTo
	fieldRequests
)

var fieldNames = []string{"policy", "key", "key_base64", "cost", "address", "plan", "up_to", "requests"}

const (
	keyFields   = fieldKeyBase64 + 1 // the policy and the key
	costFields  = fieldPlan + 1      // these, the cost, the address and the plan
	batchFields = fieldRequests + 1
)

// request reads a request, in which the first of the fields are valid.
func (s *scanner) request(into *gate.Request, fields int) bool {
	s.space()
	from := s.at
	into.Cost = 1
	seen, ok := object(s, into, fieldNames[:fields], readRequestField)
	return ok && s.checkKey(from, seen)
}

// checkKey requires exactly one key: a request without one would be charged to a key that all clients share.
func (s *scanner) checkKey(from int, seen uint) bool {
	switch seen & (1<<fieldKey | 1<<fieldKeyBase64) {
	case 0:
		return s.addProblem(from, "key", "is missing; give key, or key_base64 if it is not text")
	case 1<<fieldKey | 1<<fieldKeyBase64:
		return s.addProblem(from, "key_base64", "cannot be combined with key; keep one")
	}
	return true
}

// readRequestField reads one field of a request.
func readRequestField(s *scanner, a *gate.Request, field int) (ok bool) {
	switch field {
	case fieldPolicy:
		a.Policy, ok = s.stringValue()
	case fieldKey:
		a.Key, ok = s.stringValue()
	case fieldKeyBase64:
		a.Key, ok = s.base64()
	case fieldCost:
		a.Cost, ok = s.integer(0, rule.MaxQuota)
	case fieldAddress:
		a.Address, ok = s.address()
	case fieldPlan:
		a.Plan, ok = s.stringValue()
	}
	return ok
}

// base64 reads bytes encoded as base64.
func (s *scanner) base64() (string, bool) {
	from := s.at
	text, ok := s.stringValue()
	if !ok {
		return "", false
	}
	bytes, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // the package ignores line breaks
		return "", s.addProblem(from, s.name, "must be base64 with padding (RFC 4648, section 4)")
	}
	return string(bytes), true
}

// address reads an IP address.
func (s *scanner) address() (netip.Addr, bool) {
	from := s.at
	text, ok := s.stringValue()
	if !ok {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, s.addProblem(from, s.name, "must be an IP address without a port, such as 203.0.113.7 or 2001:db8::7")
	}
	return addr, true
}

// readAllow reads the body of /v1/allow: one request or a batch.
func (c *call) readAllow() bool {
	s := &c.scan
	c.one.Cost = 1
	s.space()
	from := s.at
	seen, ok := object(s, c, fieldNames[:batchFields], func(s *scanner, c *call, field int) (ok bool) {
		switch field {
		case fieldRequests:
			return c.readBatch()
		case fieldUpTo:
			c.upTo, ok = s.boolean()
			return ok
		}
		return readRequestField(s, &c.one, field)
	})
	switch {
	case !ok:
		return false
	case seen&(1<<fieldRequests) == 0:
		return s.checkKey(from, seen) && s.end()
	case seen != 1<<fieldRequests:
		return s.addProblem(from, "requests", "cannot be combined with other fields; put them into each of the requests")
	}
	return s.end()
}

// readBatch reads the requests of a batch.
func (c *call) readBatch() bool {
	s := &c.scan
	c.batch = true
	from := s.at
	if !s.next('[') {
		return s.expected("requests", "an array")
	}
	if s.next(']') {
		return s.addProblem(from, "requests", "is empty; give 1 to %d", MaxBatch)
	}
	s.list = "requests"
	for {
		s.index = len(c.requests)
		if s.index == MaxBatch {
			s.list = ""
			return s.addProblem(from, "requests", "has more than %d; send several batches", MaxBatch)
		}
		s.name = ""
		c.requests = append(c.requests, gate.Request{})
		if !s.request(&c.requests[s.index], costFields) {
			return false
		}
		if s.next(',') {
			continue
		}
		s.list = ""
		if s.next(']') {
			return true
		}
		return s.expected("requests", "followed by a comma or a closing bracket")
	}
}
