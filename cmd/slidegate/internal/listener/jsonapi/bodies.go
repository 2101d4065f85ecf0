package jsonapi

import (
	"encoding/base64"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// field is a field of an object in a body.
type field struct {
	name string
	read func(c *call) bool // reads its value, and returns false if there is a problem
}

// The objects of bodies.
var (
	requestFields = []field{
		{"policy", text(func(c *call) *string { return &c.into.Policy })},
		{"key", text(func(c *call) *string { return &c.into.Key })},
		{"key_base64", (*call).readKeyBase64},
		{"cost", number(0, rule.MaxQuota, func(c *call) *int64 { return &c.into.Cost })},
		{"address", (*call).readAddress},
		{"plan", text(func(c *call) *string { return &c.into.Plan })},
	}
	keyFields   = requestFields[:3] // the policy and the key
	resetFields = append(slices.Clone(keyFields),
		field{"why", logText(maxWhy, func(c *call) *string { return &c.into.Why })},
		field{"who", logText(maxWho, func(c *call) *string { return &c.into.Who })},
	)
	takeFields  = append(slices.Clone(requestFields), field{"id", (*call).readID}, field{"wait_us", (*call).readWait})
	allowFields = append(slices.Clone(takeFields),
		field{"up_to", (*call).readUpTo},
		field{"requests", (*call).readBatch},
	)
	settleFields = []field{
		{"policy", text(func(c *call) *string { return &c.into.Policy })},
		{"reservation", (*call).readReservation},
		{"cost", (*call).readCost},
		{"costs", (*call).readCosts},
	}
	endFields    = settleFields[:2]
	cancelFields = append(slices.Clone(endFields),
		field{"id", (*call).readID}, requestFields[1], requestFields[2],
		field{"plan", text(func(c *call) *string { return &c.into.Plan })},
	)
	reservationFields = []field{
		{"id", text(func(c *call) *string { return &c.reservation.ID })},
		{"group", text(func(c *call) *string { return &c.reservation.Group })},
		{"charges", (*call).readCharges},
		{"version", number(1, math.MaxInt32, func(c *call) *int { return &c.reservation.Version })},
		{"namespace", text(func(c *call) *string { return &c.reservation.Namespace })},
	}
	chargeFields = []field{
		{"limit", (*call).readLimit},
		{"key", (*call).readChargeKey},
		{"cost", number(0, rule.MaxQuota, func(c *call) *int64 { return &c.charge.Cost })},
		{"at", number(-math.MaxInt64, math.MaxInt64, func(c *call) *rule.Micros { return &c.charge.At })},
		{"by", number(0, answering.MaxMark+1, func(c *call) *int { return &c.charge.By })},
	}
)

// The bits of fields that are required, or exclude one another: see scanner.object.
const (
	hasKey, hasKeyBase64, hasCallID, hasWait, hasUpTo, hasRequests = 1 << 1, 1 << 2, 1 << 6, 1 << 7, 1 << 8, 1 << 9
	hasReservation, hasCost, hasCosts                              = 1 << 1, 1 << 2, 1 << 3
	hasID, hasCharges, hasWholeCharge                              = 1 << 0, 1 << 2, 1<<4 - 1

	cancelsCall, cancelsKey, cancelsKeyBase64 = 1 << 2, 1 << 3, 1 << 4
)

// maxCharges bounds the charges of a reservation here; stores decide fewer together.
const maxCharges = 1000

const wantAddress = "must be an IP address without a port, such as 203.0.113.7 or 2001:db8::7"

// text reads a string.
func text(into func(*call) *string) func(*call) bool {
	return func(c *call) (ok bool) {
		*into(c), ok = c.stringValue()
		return ok
	}
}

// number reads an integer within bounds.
func number[T ~int | ~int64](min, max int64, into func(*call) *T) func(*call) bool {
	return func(c *call) bool {
		n, ok := c.integer(min, max)
		*into(c) = T(n)
		return ok
	}
}

// readOne reads the body of a request with these fields.
func readOne(fields []field) func(*call) bool {
	return func(c *call) bool { return c.request(fields) && c.atEnd() }
}

// request reads an object of a request into c.into.
func (c *call) request(fields []field) bool {
	c.space()
	from := c.at
	c.into.Cost = 1
	seen, ok := c.object(fields)
	return ok && c.checkKey(from, seen)
}

// checkKey requires exactly one key: a request without one would be charged to a key that all clients share.
func (c *call) checkKey(from int, seen uint) bool {
	switch seen & (hasKey | hasKeyBase64) {
	case 0:
		return c.addProblem(from, "key", "is missing; give key, or key_base64 if it is not text")
	case hasKey | hasKeyBase64:
		return c.addProblem(from, "key_base64", "cannot be combined with key; keep one")
	}
	return true
}

func (c *call) readKeyBase64() (ok bool) {
	c.into.Key, ok = c.base64()
	return ok
}

// base64 reads bytes encoded as base64.
func (c *call) base64() (string, bool) {
	from := c.at
	text, ok := c.stringValue()
	if !ok {
		return "", false
	}
	bytes, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // the package ignores line breaks
		return "", c.addProblem(from, c.name, "must be base64 with padding (RFC 4648, section 4)")
	}
	return string(bytes), true
}

func (c *call) readAddress() bool {
	from := c.at
	text, ok := c.stringValue()
	if !ok {
		return false
	}
	var err error
	if c.into.Address, err = netip.ParseAddr(text); err != nil {
		return c.addProblem(from, c.name, wantAddress)
	}
	return true
}

func (c *call) readUpTo() (ok bool) {
	c.upTo, ok = c.boolean()
	return ok
}

// readAllow reads the body of /v1/allow: one request or a batch.
func (c *call) readAllow() bool {
	c.space()
	from := c.at
	c.into.Cost = 1
	seen, ok := c.object(allowFields)
	switch {
	case !ok:
		return false
	case seen&(hasCallID|hasUpTo) == hasCallID|hasUpTo:
		return c.addProblem(from, "id", "cannot be combined with up_to; such a call does not count once")
	case seen&(hasWait|hasUpTo) == hasWait|hasUpTo:
		return c.addProblem(from, "wait_us", "cannot be combined with up_to, which takes what is free now")
	case seen&hasRequests == 0:
		return c.checkKey(from, seen) && c.atEnd()
	case seen != hasRequests:
		return c.addProblem(from, "requests", "cannot be combined with other fields; put them into each of the requests")
	}
	return c.atEnd()
}

// readBatch reads the requests of a batch.
func (c *call) readBatch() bool {
	c.batch = true
	from := c.at
	if !c.each("requests", MaxBatch, "has more than %d; send several batches", func() bool {
		c.requests = append(c.requests, gate.Request{})
		c.into = &c.requests[len(c.requests)-1]
		from := c.at
		return c.request(takeFields) && (c.into.Wait <= 0 || c.addProblem(from, "wait_us", "cannot be used in a batch, whose requests do not wait"))
	}) {
		return false
	}
	if len(c.requests) == 0 {
		return c.addProblem(from, "requests", "is empty; give 1 to %d", MaxBatch)
	}
	return true
}

// readID reads the ID of a call.
func (c *call) readID() (ok bool) {
	from := c.at
	if c.into.ID, ok = c.stringValue(); ok && c.into.ID == "" {
		return c.addProblem(from, c.name, "is empty; give each call its own, or leave it out")
	}
	return ok
}

// The maximum length of a reason and of a name in the log of rulings, in bytes.
const (
	maxWhy = 512
	maxWho = 128
)

// maxWait is the longest time that a request may ask to wait.
const maxWait = time.Hour

// readWait reads how long the request may wait in line; 0 means that it does not, whatever the policy says.
func (c *call) readWait() bool {
	micros, ok := c.integer(0, maxWait.Microseconds())
	if c.into.Wait = time.Duration(micros) * time.Microsecond; micros == 0 {
		c.into.Wait = -1
	}
	return ok
}

// logText reads a text for the log of rulings.
func logText(most int, into func(*call) *string) func(*call) bool {
	return func(c *call) (ok bool) {
		from := c.at
		if *into(c), ok = c.stringValue(); ok && (len(*into(c)) > most || strings.ContainsFunc(*into(c), unicode.IsControl)) {
			return c.addProblem(from, c.name, "must be one line of printable text, of at most %d bytes", most)
		}
		return ok
	}
}

// readCancel reads the body of cancel: a reservation, or the ID and the key of a call.
func (c *call) readCancel() bool {
	seen, ok := c.object(cancelFields)
	key := seen & (cancelsKey | cancelsKeyBase64)
	switch {
	case !ok:
		return false
	case seen&hasReservation != 0 && seen&^(hasReservation|1) != 0:
		return c.addProblem(0, "reservation", "cannot be combined with the id and the key of a call; keep one")
	case seen&hasReservation != 0:
		c.one.Reservation = &c.reservation
	case seen&cancelsCall == 0:
		return c.addProblem(0, "reservation", "is missing; send the one that /v1/reserve returned, or the id and the key of a call")
	case key == 0:
		return c.addProblem(0, "key", "is missing; give the one of the call")
	case key == cancelsKey|cancelsKeyBase64:
		return c.addProblem(0, "key_base64", "cannot be combined with key; keep one")
	}
	return c.atEnd()
}

// readEnd reads the body of renew and release.
func (c *call) readEnd() bool { return c.about(endFields, hasReservation) }

// readSettle reads the body of settle.
func (c *call) readSettle() bool { return c.about(settleFields, hasReservation|hasCost|hasCosts) }

// about reads the body of a request about a reservation, which needs some of these fields.
func (c *call) about(fields []field, needs uint) bool {
	seen, ok := c.object(fields)
	switch {
	case !ok:
		return false
	case seen&hasReservation == 0:
		return c.addProblem(0, "reservation", "is missing; send the one that /v1/reserve returned")
	case seen&hasCost != 0 && seen&hasCosts != 0:
		return c.addProblem(0, "costs", "cannot be combined with cost; keep one")
	case seen&needs == hasReservation && needs != hasReservation:
		return c.addProblem(0, "cost", "is missing; give what was used, or costs by limit")
	}
	c.one.Reservation = &c.reservation
	return c.atEnd() && (c.costs == nil || c.nameCosts(seen))
}

// nameCosts assigns costs without names to limits.
func (c *call) nameCosts(seen uint) bool {
	var err error
	if c.one.Used, err = gate.UsedInOrder(&c.reservation, c.costs); err != nil {
		field := "cost"
		if seen&hasCosts != 0 {
			field = "costs"
		}
		return c.addProblem(0, field, `must be costs by limit, such as "costs": {"tokens": 700}, for a reservation of several limits: %v`, err)
	}
	return true
}

func (c *call) readCost() bool {
	cost, ok := c.integer(0, rule.MaxQuota)
	c.costs = append(c.costs, cost)
	return ok
}

func (c *call) readCosts() bool {
	if c.next('{') {
		return c.costsByLimit()
	}
	c.costs = []int64{} // not nil, even if it is empty
	return c.each("costs", maxCharges, "has more than %d entries", c.readCost)
}

// costsByLimit reads the rest of an object of numbers whose fields are names or texts of limits.
func (c *call) costsByLimit() bool {
	if c.next('}') {
		return true
	}
	for len(c.one.Used) < maxCharges {
		c.space()
		from := c.at
		c.name = "costs"
		limit, ok := c.stringValue()
		if !ok {
			return false
		}
		if slices.ContainsFunc(c.one.Used, func(u slidegate.Used) bool { return u.Limit == limit }) {
			return c.addProblem(from, "costs", "has a duplicate limit; keep one")
		}
		if !c.next(':') {
			return c.expected("costs", "the names of limits, each followed by a colon and a number")
		}
		c.space()
		cost, ok := c.integer(0, rule.MaxQuota)
		if !ok {
			return false
		}
		c.one.Used = append(c.one.Used, slidegate.Used{Limit: limit, Cost: cost})
		switch {
		case c.next(','):
		case c.next('}'):
			return true
		default:
			return c.expected("costs", "followed by a comma or a closing brace")
		}
	}
	return c.addProblem(c.at, "costs", "has more than %d entries", maxCharges)
}

// readReservation reads a slidegate.Reservation as encoding/json writes it.
func (c *call) readReservation() bool {
	from := c.at
	if c.at < len(c.text) && c.text[c.at] != '{' {
		return c.expected("reservation", "the object that /v1/reserve returned")
	}
	c.within = "reservation."
	seen, ok := c.object(reservationFields)
	switch {
	case !ok:
		return false
	case seen&hasID == 0 || seen&hasCharges == 0:
		return c.addProblem(from, "", "lacks id or charges; send all of what /v1/reserve returned")
	case c.reservation.ID == "":
		return c.addProblem(from, "id", "is empty; send what /v1/reserve returned")
	case c.reservation.Version != adapter.ReservationVersion:
		return c.addProblem(from, "version", "must be %d, not %d; send all of what /v1/reserve of this version returned",
			adapter.ReservationVersion, c.reservation.Version)
	}
	c.within = ""
	return true
}

func (c *call) readCharges() bool {
	return c.each("charges", maxCharges, "has more than %d entries", func() bool {
		from := c.at
		c.charge = slidegate.ReservedCharge{}
		seen, ok := c.object(chargeFields)
		if ok && seen&hasWholeCharge != hasWholeCharge {
			return c.addProblem(from, "", "lacks a field; want limit, key, cost and at")
		}
		c.reservation.Charges = append(c.reservation.Charges, c.charge)
		return ok
	})
}

func (c *call) readLimit() bool {
	from := c.at
	text, ok := c.stringValue()
	if !ok {
		return false
	}
	var err error
	if c.charge.Limit, err = slidegate.ParseLimit(text); err != nil {
		return c.addProblem(from, c.name, "%v", err)
	}
	return true
}

func (c *call) readChargeKey() bool {
	key, ok := c.base64()
	c.charge.Key = []byte(key)
	return ok
}
