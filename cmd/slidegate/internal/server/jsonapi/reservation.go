package jsonapi

import (
	"math"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/rule"
)

// reservation is what settle, cancel, renew and release are asked.
type reservation struct {
	policy string
	made   slidegate.Reservation
	costs  []int64                  // in the order of the charges,
	used   []slidegate.Used         // or by limit
	charge slidegate.ReservedCharge // while it is read
}

// The fields of settling. Cancelling, renewing and releasing take the first two.
var (
	settleNames      = []string{"policy", "reservation", "cost", "costs"}
	endNames         = settleNames[:2]
	reservationNames = []string{"id", "group", "charges", "version"}
	chargeNames      = []string{"limit", "key", "cost", "at"}
)

// maxCharges is how many charges a reservation may have here; stores decide fewer at once.
const maxCharges = 1000

// readSettle reads what settle, cancel, renew and release take.
func (c *call) readSettle(fields []string) bool {
	s, into := &c.scan, &c.reservation
	seen, ok := object(s, into, fields, readSettled)
	switch {
	case !ok:
		return false
	case seen&2 == 0:
		return s.wrong(0, "reservation", "is missing; send the one that /v1/reserve answered with")
	case seen&12 == 12:
		return s.wrong(0, "costs", "does not go together with cost; keep one")
	case seen&12 == 0 && len(fields) > 2:
		return s.wrong(0, "cost", "is missing; give what was used, or costs by limit")
	}
	return s.end() && c.nameCosts(seen)
}

// nameCosts says which limits costs without names belong to.
func (c *call) nameCosts(seen uint) bool {
	s, into := &c.scan, &c.reservation
	if into.costs == nil {
		return true
	}
	var err error
	if into.used, err = gate.UsedInOrder(&into.made, into.costs); err != nil {
		field := "cost"
		if seen&8 != 0 {
			field = "costs"
		}
		return s.wrong(0, field, `must be costs by limit, such as "costs": {"tokens": 700}, where a reservation has several: %v`, err)
	}
	return true
}

func readSettled(s *scanner, into *reservation, field int) (ok bool) {
	switch field {
	case 0:
		into.policy, ok = s.str()
	case 1:
		ok = s.reservation(into)
	case 2:
		var cost int64
		cost, ok = s.whole(0, rule.MaxQuota)
		into.costs = append(into.costs, cost)
	case 3:
		if s.at < len(s.text) && s.text[s.at] == '{' {
			return s.costsByLimit(into)
		}
		into.costs = []int64{} // also if it is empty
		ok = s.each("costs", func() bool {
			cost, ok := s.whole(0, rule.MaxQuota)
			into.costs = append(into.costs, cost)
			return ok
		})
	}
	return ok
}

// costsByLimit reads an object of numbers, with names or texts of limits as its fields.
func (s *scanner) costsByLimit(into *reservation) bool {
	s.at++
	if s.next('}') {
		return true
	}
	for len(into.used) < maxCharges {
		s.space()
		from := s.at
		s.name = "costs"
		limit, ok := s.str()
		if !ok {
			return false
		}
		if slices.ContainsFunc(into.used, func(u slidegate.Used) bool { return u.Limit == limit }) {
			return s.wrong(from, "costs", "has a limit twice; keep one")
		}
		if !s.next(':') {
			return s.expected("costs", "the names of limits, each followed by a colon and a number")
		}
		s.space()
		cost, ok := s.whole(0, rule.MaxQuota)
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
	return s.wrong(s.at, "costs", "has more than %d entries", maxCharges)
}

// reservation reads a slidegate.Reservation as encoding/json writes it.
func (s *scanner) reservation(into *reservation) bool {
	from := s.at
	s.name = "reservation"
	if s.at < len(s.text) && s.text[s.at] != '{' {
		return s.expected("reservation", "the object that /v1/reserve answered with")
	}
	s.within = "reservation."
	seen, ok := object(s, into, reservationNames, readReservation)
	if ok && seen&5 != 5 {
		return s.wrong(from, "", "lacks its id or its charges; send all that /v1/reserve answered with")
	}
	if ok && into.made.ID == "" {
		return s.wrong(from, "id", "is empty; send what /v1/reserve answered with")
	}
	if ok && into.made.Version > slidegate.ReservationVersion {
		return s.wrong(from, "version", "is %d, and this service knows up to %d; upgrade it to the version that made the reservation",
			into.made.Version, slidegate.ReservationVersion)
	}
	if into.made.Version < slidegate.ReservationVersion {
		nameEarlier(into.made.Charges)
	}
	s.within = ""
	return ok
}

// nameEarlier names the algorithm of limits in a reservation of an earlier version, where one that names none is a sliding window.
func nameEarlier(charges []slidegate.ReservedCharge) {
	for i := range charges {
		if limit := &charges[i].Limit; limit.Algorithm == slidegate.DefaultAlgorithm && limit.Calendar == 0 {
			limit.Algorithm = slidegate.SlidingWindow
		}
	}
}

func readReservation(s *scanner, into *reservation, field int) (ok bool) {
	switch field {
	case 0:
		into.made.ID, ok = s.str()
	case 1:
		into.made.Group, ok = s.str()
	case 2:
		ok = s.each("charges", func() bool {
			from := s.at
			into.charge = slidegate.ReservedCharge{}
			seen, ok := object(s, &into.charge, chargeNames, readCharge)
			if ok && seen != 15 {
				return s.wrong(from, "", "lacks a field; there are limit, key, cost and at")
			}
			into.made.Charges = append(into.made.Charges, into.charge)
			return ok
		})
	case 3:
		var version int64
		version, ok = s.whole(1, math.MaxInt32)
		into.made.Version = int(version)
	}
	return ok
}

func readCharge(s *scanner, into *slidegate.ReservedCharge, field int) (ok bool) {
	from := s.at
	switch field {
	case 0:
		var text string
		if text, ok = s.str(); ok {
			var err error
			if into.Limit, err = slidegate.ParseLimit(text); err != nil {
				return s.wrong(from, s.name, "%v", err)
			}
		}
	case 1:
		var key string
		key, ok = s.base64()
		into.Key = []byte(key)
	case 2:
		into.Cost, ok = s.whole(0, rule.MaxQuota)
	case 3: // a layer that answered in place of the store marks the time by a minus sign
		var at int64
		at, ok = s.whole(-math.MaxInt64, math.MaxInt64)
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
	return s.wrong(s.at, field, "has more than %d entries", maxCharges)
}
