package redisstore

import (
	"context"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Inspect returns the state of an address: the script peeks at it, and returns all of it. See store.Inspector.
func (s *Store) Inspect(ctx context.Context, limit *store.Limit, group, key string) (state rule.State, now rule.Micros, err error) {
	if ctx.Err() != nil {
		return state, 0, endedError(ctx)
	}
	name := appendName(nil, s.prefix(limit), group, key)
	head := append(appendNumber(appendNumber(nil, int64(s.now())), s.grace), byte(generalPath))
	charge := appendID(appendLimit(nil, &store.Charge{Limit: limit, Key: key}, rule.Peek, 1, sendWhole), 0)
	charge[calendarByte] = 0 // what is stored does not depend on the period
	calls, err := s.runOnce(ctx, &script, []Call{{Keys: []string{string(name)}, Args: []string{string(head), string(charge)}}})
	if err != nil {
		return state, 0, err
	}
	return readInspected(calls[0].Reply, limit.Rule())
}

// readInspected reads the reply to a peek that asks for all of the state.
func readInspected(reply string, l *rule.Limit) (s rule.State, now rule.Micros, err error) {
	r := &reader{text: reply}
	now = r.micros()
	_ = r.short() // no fast path has decided
	flags, length := r.short(), r.short()
	if flags&replyOtherVersion != 0 {
		return s, 0, versionError(length)
	}
	_ = r.bytes(3 * 8) // the decision
	if l.Algorithm == rule.InFlight {
		for len(r.text) >= 16 {
			s.Slots = append(s.Slots, rule.Slot{ID: rule.ID(r.word()), Renewed: r.micros()})
		}
	} else {
		s = r.state(l, flags&replyInParts != 0, length, make([]int64, l.Parts()))
	}
	if s.Holds = r.holds(); r.bad || r.text != "" {
		return rule.State{}, 0, errReply
	}
	return s, now, nil
}
