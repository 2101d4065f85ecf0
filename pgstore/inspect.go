package pgstore

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// inspectStatement returns the statement of Inspect. It returns the time and, if there is a row, 1 if it has a start, the start, the
// current and the previous count, how many numbers describe what is held, these, and the other numbers of the state.
func inspectStatement(name string) string {
	return "SELECT ARRAY[CASE WHEN $2::bigint < 0 THEN (date_part('epoch', clock_timestamp()) * 1000000)::bigint ELSE $2::bigint END] || " +
		"(SELECT ARRAY[(t.start IS NOT NULL)::int::bigint, coalesce(t.start, 0), t.current, t.previous, coalesce(cardinality(t.holds), 0)] || t.holds || t.more " +
		"FROM " + name + "state t WHERE t.address = $1::text AND (t.previous >= -1 OR " + name + "readable(t.previous)))"
}

// inspectHeader is how many numbers of a row come before those of what is held.
const inspectHeader = 5

// Inspect returns the state of an address; see store.Inspector.
func (s *Store) Inspect(ctx context.Context, limit *store.Limit, group, key string) (state rule.State, now rule.Micros, err error) {
	if err := ctx.Err(); err != nil {
		return state, 0, fmt.Errorf("pgstore: %w", err)
	}
	address := string(appendAddress(nil, s.prefix(limit), group, key))
	reply, err := call(ctx, s.db, s.inspect, []any{address, s.now()}, nil)
	if err != nil {
		return state, 0, explain(ctx, err)
	}
	ok := len(reply) > 0
	if len(reply) > 1 {
		state, ok = readRow(limit.Rule(), reply[1:])
	}
	if !ok {
		return rule.State{}, 0, fmt.Errorf("pgstore: %w", errReply)
	}
	return state, rule.Micros(reply[0]), nil
}

// readRow reads the state in a row.
func readRow(l *rule.Limit, row []int64) (s rule.State, ok bool) {
	if len(row) < inspectHeader || row[4] < 0 || row[4] > int64(len(row)-inspectHeader) || row[4]%holdNumbers != 0 {
		return s, false
	}
	started, start, more := row[0] == 1, row[1], row[inspectHeader+row[4]:]
	isLog := l.Algorithm == rule.SlidingLog || l.Algorithm == rule.DefaultAlgorithm && !started
	switch parts := l.Parts(); {
	case l.Algorithm == rule.InFlight:
		s.Slots, ok = readSlots(more)
	case isLog, parts == 0:
		s, ok = stateOf(l, isLog, more, nil)
	case !started:
		s, ok = stateOf(l, false, nil, nil)
	case parts <= 2:
		s, ok = stateOf(l, false, append([]int64{start}, row[2:2+parts]...), make([]int64, parts))
	default:
		s.Start, s.Counts = rule.Micros(start), make([]int64, parts)
		ok = readCounts(l, s.Start, more, s.Counts)
	}
	return s, ok && readHolds(&s, row[inspectHeader:inspectHeader+row[4]])
}
