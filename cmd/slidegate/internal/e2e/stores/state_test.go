package stores_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

const stateFile = `
policies:
  api:
    limits: [7/1h name=log, 300/1h name=parts, 90/1h segments=6 overlap=whole name=six, 40/1h fixed-window name=fixed, 50/day name=day, 30/1h hold=10m name=held,
      5/1h token-bucket burst=60 name=bucket]
`

// Through the layers of the service, any process says the same of a key as a peek, on every store. Nothing leaves an hour's window
// within the test, so that only the times differ, by how long it took.
func TestState(t *testing.T) {
	for name, url := range map[string]func() string{
		"memory":     func() string { return "memory:" },
		"Redis":      func() string { return "redis://" + redistest.Server(t).Addr() },
		"PostgreSQL": func() string { return pgtest.Start(t, "fsync = off").URL("slidegate_prefix=my_", "pool_max_conns=4") },
		"NATS":       func() string { return natstest.Start(t) },
		"Redis Cluster": func() string {
			var addresses []string
			for _, node := range redistest.Cluster(t) {
				addresses = append(addresses, node.Addr())
			}
			return "redis+cluster://" + strings.Join(addresses, ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := url()
			one := gateOver(t, at)
			other := one
			if name != "memory" {
				other = gateOver(t, at)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 25 {
				op := []gate.Op{gate.Allow, gate.Charge, gate.Reserve, gate.Refund}[random.IntN(4)]
				req := gate.Request{Key: "ann", Cost: 1 + random.Int64N(4), Reservation: &slidegate.Reservation{}}
				if _, err := one.Do(ctx, op, req); err != nil {
					t.Fatal(err)
				}
				checkState(t, other, req)
			}
		})
	}
}

// checkState compares a state with peeks before and after it.
func checkState(t *testing.T, g *gate.Gate, req gate.Request) {
	t.Helper()
	before, err := g.Explain(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	k, err := g.State(ctx, req, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := g.Explain(ctx, req)
	if err != nil || len(k.Limits) != len(before.Limits) || len(after.Limits) != len(before.Limits) {
		t.Fatalf("got %+v, %v, want the limits of %+v and %+v", k, err, before, after)
	}
	for i, got := range k.Limits {
		a, b := before.Limits[i], after.Limits[i]
		if got.Text != a.Limit || got.Remaining < *a.Remaining || got.Remaining > *b.Remaining || max(0, got.Capacity-got.Used) != got.Remaining {
			t.Errorf("%s: got %+v, want what is left to be %d to %d", got.Text, got, *a.Remaining, *b.Remaining)
		}
		// Of equal answers, the later one has less to wait for.
		if int64(got.ResetAfter) > a.ResetAfterMicros || int64(got.ResetAfter) < b.ResetAfterMicros || *got.RetryAfter > rule.Micros(*a.RetryAfterMicros) ||
			*got.RetryAfter < rule.Micros(*b.RetryAfterMicros) {
			t.Errorf("%s: got %+v, want the times to be between those of %+v and %+v", got.Text, got, a, b)
		}
	}
}

func gateOver(t *testing.T, url string) *gate.Gate {
	t.Helper()
	opts := patientOptions()
	opts.RefusalAge = -1 // a peek would get refusals that were remembered from before
	o := openConnected(t, url, opts)
	file, err := config.Parse("policies", []byte(stateFile))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(file, o.Store, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}
