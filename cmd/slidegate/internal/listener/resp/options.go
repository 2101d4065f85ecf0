package resp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
)

// Policies is the part of *gate.Gate that the server uses.
type Policies interface {
	Do(ctx context.Context, op gate.Op, req gate.Request) (policy.Decision, error)
	AllowBatch(ctx context.Context, reqs []gate.Request, decisions []policy.Decision, errs []error)
	CancelUnsent(ctx context.Context, r slidegate.Reservation)
	Policies() []string
}

// Options configures a Server. The zero value is a server that accepts all clients.
type Options struct {
	// Tokens are accepted by AUTH and HELLO as a password, with any user name. If there are none, all clients are
	// accepted.
	Tokens []string
	// AdminTokens are accepted as well. If there are any, SG.RESET and SG.REFUND require one of them.
	AdminTokens []string
	// AuthTimeout is how long a client may take to authenticate after connecting, if there are tokens. 0 means 10
	// seconds.
	AuthTimeout time.Duration
	// MaxConnections is the maximum number of connected clients; others get an error and are disconnected. 0 means
	// 10,000. With Tokens, a quarter of the connections is for clients that have not authenticated yet; when that
	// quarter is full, the oldest of them is disconnected to make room for the next.
	MaxConnections int
	// IdleTimeout is how long a connection may be silent between commands. It is enforced in steps of an eighth. 0
	// means half an hour, since clients keep connections in pools; a negative value disables it.
	IdleTimeout time.Duration
	// ReadTimeout is how long a command may take from its first byte to its last. 0 means 10 seconds.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to accept replies before it is disconnected. It is also enforced in
	// steps of an eighth. 0 means 10 seconds.
	WriteTimeout time.Duration
	// MaxBulk is the maximum size of an argument, or of an inline command, in bytes. A whole command may have twice
	// that size. 0 means 64 KiB.
	MaxBulk int
	// MaxArgs is the maximum number of arguments of a command, including its name. 0 means 128.
	MaxArgs int
	// MaxPipeline is the maximum number of commands whose replies are sent in one write; longer pipelines take several
	// writes. 0 means 1024.
	MaxPipeline int
	// MaxPeriods is how many different periods of CL.THROTTLE one connection may have in use: those that it was the
	// first to use and whose keys are not full again. A store in memory keeps a table for each. All connections of a
	// host together have half of what others leave of 2,048. 0 means 64; a negative value means any number, for a
	// store that is reached over a network.
	MaxPeriods int
	// LeaseThrottle leases units for busy keys of CL.THROTTLE, from buckets that hold at least four times what they
	// refill in 100 ms. Such buckets then hold fewer units by that much.
	LeaseThrottle bool
	// Batch decides consecutive SG.ALLOWs of one read in one call to the store, in the same order and with the same
	// replies. Set it for a store that is reached over a network: a pipeline then takes one round trip. In memory,
	// deciding one by one is faster.
	Batch bool
	// Logger receives a line when clients are rejected or the listener fails, and at the debug level for each client
	// that violated the protocol or was too slow; nil discards them. It never receives keys.
	Logger *slog.Logger
	// OnChange is called after SG.RESET and SG.REFUND have been carried out, with the hash of the client's token, nil if it has none, and
	// the name of the operation; nil means that nothing is called. It must copy the key to keep it.
	OnChange func(token *[sha256.Size]byte, operation string, req gate.Request)
	// MeterProvider receives the metrics; nil means the global one.
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

// complete fills in the defaults, and rejects invalid values.
func (o *Options) complete() error {
	numbers := []struct {
		name          string
		value         *int
		standard      int
		smallest, max int
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
		if n.value == &o.MaxPeriods && *n.value < 0 {
			continue
		}
		if *n.value < n.smallest || *n.value > n.max {
			return fmt.Errorf("resp: %s: must be %d to %d, or 0 for %d, not %d", n.name, n.smallest, n.max, n.standard, *n.value)
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
			return fmt.Errorf("resp: %s: must not be negative, got %v; 0 means 10 seconds", name, *d)
		}
	}
	for name, tokens := range map[string][]string{"Tokens": o.Tokens, "AdminTokens": o.AdminTokens} {
		if at := slices.Index(tokens, ""); at >= 0 {
			return fmt.Errorf("resp: %s: token %d is empty; leave it out", name, at)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
