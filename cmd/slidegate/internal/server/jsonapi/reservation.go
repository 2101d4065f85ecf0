package jsonapi

import (
	"math"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/rule"
)

// reservation is the request of settle, cancel, renew and release.
type reservation struct {
	policy string
	value  slidegate.Reservation
	costs  []int64                  // what was used, in the order of the charges
	used   []slidegate.Used         // what was used, by limit; set instead of costs, or derived from them
	charge slidegate.ReservedCharge // the charge that is being read
}

// The fields of settle. Cancel, renew and release accept the first two.
var (
	settleNames      = []string{"policy", "reservation", "cost", "costs"}
	endNames         = settleNames[:2]
	reservationNames = []string{"id", "group", "charges", "version", "namespace"}
	chargeNames      = []string{"limit", "key", "cost", "at"}
)

// maxCharges bounds the charges of a reservation here; stores decide fewer together.
const maxCharges = 1000

// readSettle reads the body of settle, cancel, renew or release.
func (c *call) readSettle(fields []string) bool {
	s, into := &c.scan, &c.reservation
	seen, ok := object(s, into, fields, readSettled)
	switch {
	case !ok:
		return false
	case seen&2 == 0:
		return s.addProblem(0, "reservation", "is missing; send the one that /v1/reserve returned")
	case seen&12 == 12:
		return s.addProblem(0, "costs", "cannot be combined with cost; keep one")
	case seen&12 == 0 && len(fields) > 2:
		return s.addProblem(0, "cost", "is missing; give what was used, or costs by limit")
	}
	return s.end() && c.nameCosts(seen)
}

// nameCosts assigns costs without names to limits.
func (c *call) nameCosts(seen uint) bool {
	s, into := &c.scan, &c.reservation
	if into.costs == nil {
		return true
	}
	var err error
	if into.used, err = gate.UsedInOrder(&into.value, into.costs); err != nil {
		field := "cost"
		if seen&8 != 0 {
			field = "costs"
		}
		return s.addProblem(0, field, `must be costs by limit, such as "costs": {"tokens": 700}, for a reservation of several limits: %v`, err)
	}
	return true
}

func readSettled(s *scanner, into *reservation, field int) (ok bool) {
	switch field {
	case 0:
		into.policy, ok = s.stringValue()
	case 1:
		ok = s.reservation(into)
	case 2:
		var cost int64
		cost, ok = s.integer(0, rule.MaxQuota)
		into.costs = append(into.costs, cost)
	case 3:
		if s.at < len(s.text) && s.text[s.at] == '{' {
			return s.costsByLimit(into)
		}
		into.costs = []int64{} // not nil, even if it is empty
		ok = s.each("costs", func() bool {
			cost, ok := s.integer(0, rule.MaxQuota)
			into.costs = append(into.costs, cost)
			return ok
		})
	}
	return ok
}

// costsByLimit reads an object of numbers whose fields are names or texts of limits.
func (s *scanner) costsByLimit(into *reservation) bool {
	s.at++
	if s.next('}') {
		return true
	}
	for len(into.used) < maxCharges {
		s.space()
		from := s.at
		s.name = "costs"
		limit, ok := s.stringValue()
		if !ok {
			return false
		}
		if slices.ContainsFunc(into.used, func(u slidegate.Used) bool { return u.Limit == limit }) {
			return s.addProblem(from, "costs", "has a duplicate limit; keep one")
		}
		if !s.next(':') {
			return s.expected("costs", "the names of limits, each followed by a colon and a number")
		}
		s.space()
		cost, ok := s.integer(0, rule.MaxQuota)
		if !ok {
			return false
		}
		into.used = append(into.used, slidegate.Used{Limit: limit, Cost: cost})
		switch {
		case s.next(','):
		case s.next('}'):
			return true
		default:
			return s.expected("costs", "followed by a comma or a closing brace")
		}
	}
	return s.addProblem(s.at, "costs", "has more than %d entries", maxCharges)
}

// reservation reads a slidegate.Reservation as encoding/json writes it.
func (s *scanner) reservation(into *reservation) bool {
	from := s.at
	s.name = "reservation"
	if s.at < len(s.text) && s.text[s.at] != '{' {
		return s.expected("reservation", "the object that /v1/reserve returned")
	}
	s.within = "reservation."
	seen, ok := object(s, into, reservationNames, readReservation)
	if ok && seen&5 != 5 {
		return s.addProblem(from, "", "lacks id or charges; send all of what /v1/reserve returned")
	}
	if ok && into.value.ID == "" {
		return s.addProblem(from, "id", "is empty; send what /v1/reserve returned")
	}
	if ok && into.value.Version != slidegate.ReservationVersion {
		return s.addProblem(from, "version", "must be %d, not %d; send all of what /v1/reserve of this version returned",
			slidegate.ReservationVersion, into.value.Version)
	}
	s.within = ""
	return ok
}

func readReservation(s *scanner, into *reservation, field int) (ok bool) {
	switch field {
	case 0:
		into.value.ID, ok = s.stringValue()
	case 1:
		into.value.Group, ok = s.stringValue()
	case 2:
		ok = s.each("charges", func() bool {
			from := s.at
			into.charge = slidegate.ReservedCharge{}
			seen, ok := object(s, &into.charge, chargeNames, readCharge)
			if ok && seen != 15 {
				return s.addProblem(from, "", "lacks a field; want limit, key, cost and at")
			}
			into.value.Charges = append(into.value.Charges, into.charge)
			return ok
		})
	case 3:
		var version int64
		version, ok = s.integer(1, math.MaxInt32)
		into.value.Version = int(version)
	case 4:
		into.value.Namespace, ok = s.stringValue()
	}
	return ok
}

func readCharge(s *scanner, into *slidegate.ReservedCharge, field int) (ok bool) {
	from := s.at
	switch field {
	case 0:
		var text string
		if text, ok = s.stringValue(); ok {
			var err error
			if into.Limit, err = slidegate.ParseLimit(text); err != nil {
				return s.addProblem(from, s.name, "%v", err)
			}
		}
	case 1:
		var key string
		key, ok = s.base64()
		into.Key = []byte(key)
	case 2:
		into.Cost, ok = s.integer(0, rule.MaxQuota)
	case 3: // a layer that decided in place of the store marks the time with a minus sign
		var at int64
		at, ok = s.integer(-math.MaxInt64, math.MaxInt64)
		into.At = slidegate.Micros(at)
	}
	return ok
}

// each reads an array of at most maxCharges entries.
func (s *scanner) each(field string, read func() bool) bool {
	if !s.next('[') {
		return s.expected(field, "an array")
	}
	if s.next(']') {
		return true
	}
	s.list = field
	for s.index = 0; s.index < maxCharges; s.index++ {
		s.space()
		s.name = ""
		if !read() {
			return false
		}
		if s.next(',') {
			continue
		}
		s.list = ""
		if s.next(']') {
			return true
		}
		return s.expected(field, "followed by a comma or a closing bracket")
	}
	s.list = ""
	return s.addProblem(s.at, field, "has more than %d entries", maxCharges)
}
