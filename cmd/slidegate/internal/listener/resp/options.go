package resp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
)

// Policies is the part of *gate.Gate that the server uses.
type Policies interface {
	Do(ctx context.Context, op gate.Op, req gate.Request) (policy.Decision, error)
	AllowBatch(ctx context.Context, reqs []gate.Request, decisions []policy.Decision, errs []error)
}

// Options configures a Server. The zero value is a server that accepts all clients.
type Options struct {
	// Tokens are accepted by AUTH and HELLO as a password, with any user name. If there are none, all clients are
	// accepted.
	Tokens []string
	// AdminTokens are accepted as well. If there are any, SG.RESET requires one of them.
	AdminTokens []string
	// MaxGuests is how many clients that have not authenticated may be connected, if there are Tokens; when there are more, the oldest of
	// them is disconnected. 0 means 2,500.
	MaxGuests int
	// IdleTimeout is how long a connection may be silent between commands. It is enforced in steps of an eighth. 0
	// means half an hour, since clients keep connections in pools.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may take to accept replies before it is disconnected. It is also enforced in
	// steps of an eighth. 0 means 10 seconds.
	WriteTimeout time.Duration
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
	// OnReset is called after SG.RESET has been carried out, with the hash of the client's token, nil if it has none; nil means that
	// nothing is called. It must copy the key to keep it.
	OnReset func(token *[sha256.Size]byte, req gate.Request)
	// MeterProvider receives the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
}

const (
	authTimeout = 10 * time.Second // how long a client may take to authenticate after connecting, if there are tokens
	readTimeout = 10 * time.Second // how long a command may take from its first byte to its last
	maxBulk     = 64 << 10         // bytes of an argument; a whole command may have twice that size
	maxArgs     = 128              // arguments of a command, including its name
)

// setDefaults fills in the defaults.
func (o *Options) setDefaults() {
	o.MaxGuests, o.MaxPipeline, o.MaxPeriods = cmp.Or(o.MaxGuests, 2500), cmp.Or(o.MaxPipeline, 1024), cmp.Or(o.MaxPeriods, 64)
	o.IdleTimeout, o.WriteTimeout = cmp.Or(o.IdleTimeout, 30*time.Minute), cmp.Or(o.WriteTimeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
