package gate

import (
	"context"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// Take does Reserve or Acquire, and returns the reservation.
func (g *Gate) Take(ctx context.Context, op Op, req Request) (r slidegate.Reservation, d policy.Decision, err error) {
	req.Reservation = &r
	d, err = g.Do(ctx, op, req)
	return r, d, err
}

// End does Renew, Release, Settle or Cancel to a reservation.
func (g *Gate) End(ctx context.Context, op Op, of string, r slidegate.Reservation, used ...slidegate.Used) (policy.Decision, error) {
	return g.Do(ctx, op, Request{Policy: of, Reservation: &r, Used: used})
}
