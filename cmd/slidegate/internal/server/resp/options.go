package resp

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// Policies is what the server asks; *gate.Gate is one.
type Policies interface {
	Allow(ctx context.Context, ask gate.Ask) (gate.Verdict, error)
	AllowBatch(ctx context.Context, asks []gate.Ask, verdicts []gate.Verdict, errs []error)
	AllowUpTo(ctx context.Context, ask gate.Ask) (gate.Verdict, error)
	Peek(ctx context.Context, ask gate.Ask) (gate.Verdict, error)
	Refund(ctx context.Context, ask gate.Ask) (gate.Verdict, error)
	Charge(ctx context.Context, ask gate.Ask) (gate.Verdict, error)
	Reset(ctx context.Context, ask gate.Ask) error
	Reserve(ctx context.Context, ask gate.Ask) (slidegate.Reservation, gate.Verdict, error)
	Acquire(ctx context.Context, ask gate.Ask) (slidegate.Reservation, gate.Verdict, error)
	Renew(ctx context.Context, policy string, r slidegate.Reservation) (gate.Verdict, error)
	Release(ctx context.Context, policy string, r slidegate.Reservation) (gate.Settlement, error)
	Settle(ctx context.Context, policy string, r slidegate.Reservation, used ...slidegate.Used) (gate.Settlement, error)
	Cancel(ctx context.Context, policy string, r slidegate.Reservation) (gate.Settlement, error)
	Policies() []string
}

// Options are what a Server has besides what it asks. The zero value is a server that anybody who reaches it may use.
type Options struct {
	// Tokens are what AUTH and HELLO accept as a password, whatever the user's name. If there are none, everybody may ask.
	Tokens []string
	// AdminTokens are accepted as well. If there are any, SG.RESET and SG.REFUND are for clients alone that have said one of them.
	AdminTokens []string
	// AuthTimeout is how long a client may take to say a token, if there are any, from when it connects. 0 means 10 seconds.
	AuthTimeout time.Duration
	// MaxConnections is how many clients may be connected at once; others are told so and sent away. 0 means 10,000. With
	// Tokens, a quarter of that is for clients that have not said one yet; when it is taken, the one that has been there
	// longest makes room for the next.
	MaxConnections int
	// IdleTimeout is how long a connection may be silent between commands. It is looked at in steps of an eighth. 0 means
	// half an hour, for clients keep connections in pools; below 0 there is no end to it.
	IdleTimeout time.Duration
	// ReadTimeout is how long a command may take from its first byte to its last. 0 means 10 seconds.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to accept answers; it is then disconnected. It, too, is looked at in steps
	// of an eighth. 0 means 10 seconds.
	WriteTimeout time.Duration
	// MaxBulk is how many bytes an argument may have, or a command that is a line of text. A whole command may have twice as
	// many. 0 means 64 KiB.
	MaxBulk int
	// MaxArgs is how many arguments a command may have, its name included. 0 means 128.
	MaxArgs int
	// MaxPipeline is how many commands are answered with one write at most; what a client sends beyond that at once is
	// answered with further ones. 0 means 1024.
	MaxPipeline int
	// MaxPeriods is how many different periods CL.THROTTLE accepts over the life of the server: each is a shape of limits,
	// and a store keeps something for each. 0 means 64.
	MaxPeriods int
	// LeaseThrottle has units of busy keys of CL.THROTTLE taken in blocks, from buckets that hold at least four times what they
	// refill in 100 ms. They then hold fewer units by that much.
	LeaseThrottle bool
	// Batch has the SG.ALLOWs that follow one another in a read decided in one call to the store, in the same order and with
	// the same answers. Set it for a store that is reached over a network: a pipeline is then one round trip. In memory one
	// after the other is faster.
	Batch bool
	// Logger gets a line when clients are sent away or the listener fails, and at the debug level for each client that broke
	// the protocol or was too slow; nil means none. Keys are never in it.
	Logger *slog.Logger
	// MeterProvider gets the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
}

// The bounds of Options.
const (
	mostConnections = 1 << 20
	leastBulk       = 512
	mostBulk        = 64 << 20
	leastArgs       = 8
	mostArgs        = 1 << 16
	mostPipeline    = 1 << 16
	mostPeriods     = 1 << 16
)

// complete puts the defaults in, and refuses what cannot be.
func (o *Options) complete() error {
	numbers := []struct {
		name           string
		value          *int
		standard       int
		smallest, most int
	}{
		{"MaxConnections", &o.MaxConnections, 10_000, 1, mostConnections},
		{"MaxBulk", &o.MaxBulk, 64 << 10, leastBulk, mostBulk},
		{"MaxArgs", &o.MaxArgs, 128, leastArgs, mostArgs},
		{"MaxPipeline", &o.MaxPipeline, 1024, 1, mostPipeline},
		{"MaxPeriods", &o.MaxPeriods, 64, 1, mostPeriods},
	}
	for _, n := range numbers {
		if *n.value == 0 {
			*n.value = n.standard
		}
		if *n.value < n.smallest || *n.value > n.most {
			return fmt.Errorf("resp: %s: must be %d to %d, or 0 for %d, not %d", n.name, n.smallest, n.most, n.standard, *n.value)
		}
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Minute
	}
	for name, d := range map[string]*time.Duration{"AuthTimeout": &o.AuthTimeout, "ReadTimeout": &o.ReadTimeout, "WriteTimeout": &o.WriteTimeout} {
		if *d == 0 {
			*d = 10 * time.Second
		}
		if *d < 0 {
			return fmt.Errorf("resp: %s: must not be negative, but is %v; 0 means 10 seconds", name, *d)
		}
	}
	for name, tokens := range map[string][]string{"Tokens": o.Tokens, "AdminTokens": o.AdminTokens} {
		if at := slices.Index(tokens, ""); at >= 0 {
			return fmt.Errorf("resp: %s: the one at %d is empty; leave it out", name, at)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
