package connect

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Connection is a Store that connects in the background; see store.Connection. The zero value is not usable; call Connect, and Close
// after the last use.
type Connection struct {
	store.Registry // the limits of the limiters over this store

	driver  Driver
	link    atomic.Pointer[connected]
	lastErr atomic.Pointer[downError]

	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
}

// connected is a Link with the optional interfaces of its store.
type connected struct {
	*Link
	nodes     store.Nodes
	documents store.Documents
	inspector store.Inspector
}

// downError is why a store is not connected. It does not wrap the cause, which may be the end of a deadline, because that is not the
// deadline of a request.
type downError struct {
	store string
	cause error // nil during the first attempt
}

func (e *downError) Error() string {
	if e.cause == nil {
		return e.store + ": not connected yet"
	}
	return e.store + ": not connected: " + e.cause.Error()
}

// Is reports whether target is ErrDown or ErrUndone, or ErrRefused if the server refused the connection.
func (e *downError) Is(target error) bool {
	return target == store.ErrDown || target == store.ErrUndone || target == store.ErrRefused && errors.Is(e.cause, store.ErrRefused)
}

var errClosed = errors.New("the store is closed")

const (
	// firstAttempt is how long Connect waits for a server that neither accepts nor refuses, so that a program can serve within a second
	// of its start.
	firstAttempt = 500 * time.Millisecond
	// The pause between attempts grows from firstPause to lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// chargeTimeout is how long the first charge may take before the store counts as connected.
	chargeTimeout = 200 * time.Millisecond
	// settingsTimeout is how long reading the server's settings may take. Nothing waits for it.
	settingsTimeout = 10 * time.Second
)

// Open is the Open function of a package of stores: Connect with the driver of a URL, without a log.
func Open(ctx context.Context, driverOf func(url string) (*Driver, error), url string) (store.Connection, error) {
	driver, err := driverOf(url)
	if err != nil {
		return nil, err
	}
	c, err := Connect(ctx, driver, nil)
	if err != nil {
		return nil, err // not c, which would be a Connection that is not nil
	}
	return c, nil
}

// Connect opens the store of a driver. It makes one attempt to connect before it returns, for at most half a second, and further
// attempts in the background. So a server that is down, or whose name cannot be resolved yet, is not an error: see Err. It is an error
// if the server refuses the credentials, the role or the database at the first attempt, and if ctx ends before Connect returns. The
// logger receives a line when the store is connected or cannot be reached, and the warnings of the driver; nil disables logging.
func Connect(ctx context.Context, driver *Driver, log *slog.Logger) (*Connection, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Connection{driver: *driver}
	name := driver.Offline.Traits().Name
	log = log.With(slog.String("store", name))
	for _, text := range driver.Warnings {
		log.Warn(text)
	}
	c.lastErr.Store(&downError{store: name})
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	first, left := make(chan error), make(chan struct{})
	c.running.Go(func() {
		err := c.attempt(life, log)
		select {
		case first <- err:
			if errors.Is(err, store.ErrRefused) {
				return // an error of Connect
			}
		case <-left:
		}
		c.tryAgain(life, log, err)
	})
	timer := time.NewTimer(firstAttempt)
	defer timer.Stop()
	var failed error
	select {
	case err := <-first:
		if errors.Is(err, store.ErrRefused) {
			failed = Advise(err)
		}
	case <-timer.C:
	case <-ctx.Done():
		failed = ctx.Err()
	}
	close(left)
	if failed != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s: %w", name, failed)
	}
	return c, nil
}

// Advise adds what to correct to an error that wraps ErrRefused.
func Advise(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("%w; correct the folder in the URL, or its permissions", err)
	}
	return fmt.Errorf("%w; correct the user, the password, the role or the database in the URL, or in the store", err)
}

// attempt makes one attempt to connect.
func (c *Connection) attempt(ctx context.Context, log *slog.Logger) error {
	link, err := c.driver.Connect(ctx, log)
	if err == nil {
		if err = tryCharge(ctx, link.Store); err != nil {
			link.Close()
		}
	}
	if err != nil {
		c.lastErr.Store(&downError{store: c.Traits().Name, cause: err})
		return err
	}
	l := &connected{Link: link}
	l.nodes, _ = link.Store.(store.Nodes)
	l.documents, _ = link.Store.(store.Documents)
	l.inspector, _ = link.Store.(store.Inspector)
	c.link.Store(l)
	return nil
}

// trial is a limit that no caller has.
var trial = store.Bind("slidegate/health", "", "slidegate/health", rule.Limit{Algorithm: rule.FixedWindow, Quota: 1, Window: 10_000_000})

// tryCharge charges a unit to a key that expires, and returns an error if the server refuses that: some servers accept a role that may
// not write. A store that fails for another reason, such as a read-only one, is connected.
func tryCharge(ctx context.Context, s store.Store) error {
	ctx, cancel := context.WithTimeout(ctx, chargeTimeout)
	defer cancel()
	charges := []store.Charge{{Limit: trial, Key: cryptorand.Text(), Cost: 1}}
	err := s.Apply(ctx, []store.Request{{Op: rule.Charge, Charges: charges, Answers: make([]rule.Answer, 1)}})
	if errors.Is(err, store.ErrRefused) {
		return store.Fault(err, store.ErrDown, store.ErrUndone)
	}
	return nil
}

// tryAgain makes attempts until one succeeds, given the error of the first.
func (c *Connection) tryAgain(ctx context.Context, log *slog.Logger, err error) {
	pause, logged := firstPause, false
	for attempts := 1; ; attempts++ {
		if err == nil {
			log.Info("the store is connected", slog.Int("attempt", attempts))
			c.readSettings(ctx, log)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if refused := errors.Is(err, store.ErrRefused); attempts == 1 || refused && !logged {
			log.Warn("the store cannot be reached; trying again in the background", slog.Any("error", err))
			logged = refused // a server that was down may refuse the password once it is up
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause + rand.N(pause/4)):
		}
		pause = min(2*pause, lastPause)
		err = c.attempt(ctx, log)
	}
}

// readSettings logs settings of the server under which limits do not hold.
func (c *Connection) readSettings(ctx context.Context, log *slog.Logger) {
	read := c.link.Load().Warnings
	if read == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	warnings, err := read(ctx)
	for _, text := range warnings {
		log.Warn("limits do not hold under a setting of the store: " + text)
	}
	if err != nil && ctx.Err() == nil {
		log.Info("the settings of the store could not be read", slog.Any("error", err))
	}
}

// Err returns why the store could not be connected yet; see store.Connection.
func (c *Connection) Err() error {
	if c.link.Load() != nil {
		return nil
	}
	return c.lastErr.Load()
}

// Close closes the connections; see store.Connection.
func (c *Connection) Close() error {
	c.closing.Do(func() {
		c.cancel()
		c.running.Wait()
		c.lastErr.Store(&downError{store: c.Traits().Name, cause: errClosed})
		if link := c.link.Swap(nil); link != nil {
			link.Close()
		}
		if c.driver.Close != nil {
			c.driver.Close()
		}
	})
	return nil
}

// Check calls the store, which needs no connection for it.
func (c *Connection) Check(limit *store.Limit) error { return c.driver.Offline.Check(limit) }

// Traits calls the store, which needs no connection for it.
func (c *Connection) Traits() store.Traits { return c.driver.Offline.Traits() }

// Apply calls the store if it is connected.
func (c *Connection) Apply(ctx context.Context, batch []store.Request) error {
	if link := c.link.Load(); link != nil {
		return link.Store.Apply(ctx, batch)
	}
	err := ctx.Err()
	if err == nil {
		err = c.lastErr.Load()
	}
	return batches.FailAll(batch, err)
}

// Node calls the store if it is connected and implements Nodes; otherwise all addresses are on one node.
func (c *Connection) Node(limit *store.Limit, group, key string) int {
	if link := c.link.Load(); link != nil && link.nodes != nil {
		return link.nodes.Node(limit, group, key)
	}
	return 0
}

// LoadDocument calls the store if it is connected; see Documents.
func (c *Connection) LoadDocument(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	documents, err := c.documents()
	if err != nil {
		return nil, 0, err
	}
	return documents.LoadDocument(ctx, name, known)
}

// SwapDocument calls the store if it is connected; see Documents.
func (c *Connection) SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error) {
	documents, err := c.documents()
	if err != nil {
		return 0, err
	}
	return documents.SwapDocument(ctx, name, document, revision)
}

func (c *Connection) documents() (store.Documents, error) {
	switch link := c.link.Load(); {
	case link == nil:
		return nil, c.lastErr.Load()
	case link.documents == nil:
		return nil, fmt.Errorf("store: %w: %s keeps no documents", store.ErrUnsupported, c.Traits().Name)
	default:
		return link.documents, nil
	}
}

// Inspect calls the store if it is connected; see store.Inspector.
func (c *Connection) Inspect(ctx context.Context, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
	switch link := c.link.Load(); {
	case link == nil:
		return rule.State{}, 0, c.lastErr.Load()
	case link.inspector == nil:
		return rule.State{}, 0, fmt.Errorf("store: %w: %s does not return states", store.ErrUnsupported, c.Traits().Name)
	default:
		return link.inspector.Inspect(ctx, limit, group, key)
	}
}
