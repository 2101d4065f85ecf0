package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// countingDB counts its calls. If now is not 0, the server's clock shows it, unknown to the store.
type countingDB struct {
	*pgxpool.Pool
	calls int
	now   rule.Micros
}

func (c *countingDB) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	c.calls++
	if numbers, ok := args[len(args)-1].([]int64); ok && c.now != 0 {
		numbers[0] = int64(c.now)
	}
	return c.Pool.Query(ctx, statement, args...)
}

// The server's clock decides in which calendar period a request lies. If the clock of this machine is off by more than a
// period, that costs a second call, but no answer is wrong.
func TestServerClockDecidesCalendarPeriod(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	here := rule.Micros(time.Now().UnixMicro())
	for _, period := range []rule.Period{rule.Day, rule.Week, rule.Month, rule.Year} {
		limit := bindRule(t, "calendar", period.String(), rule.Limit{Calendar: period, Zone: "Europe/Berlin", Quota: 3})
		start, end := limit.Rule().Bounds(here)
		before, _ := limit.Rule().Bounds(start - 1)
		_, after := limit.Rule().Bounds(end)
		conn := &countingDB{Pool: pool}
		st, err := pgstore.New(conn, pgstore.Options{})
		noError(t, err)
		for i, c := range []struct {
			now   rule.Micros
			calls int
		}{
			{before, 1}, {start - 1, 1}, {start, 1}, {here, 1}, {end - 1, 1}, {end, 1}, {after - 1, 1}, {after, 2}, {after + limit.Rule().Window, 2},
			{before - 1, 2},
		} {
			conn.now, conn.calls = c.now, 0
			charge := store.Charge{Limit: limit, Key: string(rune('a' + i)), Cost: 2}
			var state rule.State
			var want [1]rule.Answer
			for round := range 2 {
				rule.Decide(rule.Take, []rule.Item{{Limit: limit.Rule(), State: &state, Cost: 2}}, c.now, want[:])
				if got := apply(t, st, rule.Take, charge); got != want[0] || conn.calls != (round+1)*c.calls {
					t.Errorf("%v, server's clock %d: got %+v in %d calls, want %+v in %d", period, c.now, got, conn.calls, want[0], (round+1)*c.calls)
				}
			}
			ends := queryNumber(t, pool, "SELECT expires FROM slidegate_state WHERE address LIKE 'calendar:%:' || $1", charge.Key)
			if want := limit.Rule().Expires(&state); rule.Micros(ends) != want {
				t.Errorf("%v, server's clock %d: the row ends at %d, want %d", period, c.now, ends, want)
			}
		}
		_, err = pool.Exec(t.Context(), "TRUNCATE slidegate_state")
		noError(t, err)
	}
}
