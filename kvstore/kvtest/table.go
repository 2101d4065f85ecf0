package kvtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
)

// Table is an Engine in memory, for tests. The zero value is empty and ready to use. It is safe for concurrent
// use once its fields are set.
type Table struct {
	// Before is called before a call takes effect. If it returns an error, the call returns that error and has no effect.
	Before func(ctx context.Context, call Call) error
	// After is called after a call has taken effect. If it returns an error, the call returns that error although it has taken
	// effect.
	After func(ctx context.Context, call Call) error
	// MaxValue is Traits.MaxValue.
	MaxValue int

	mu       sync.Mutex
	values   map[string]value
	revision uint64
	counts   Counts
}

// Call describes a call of Get or Swap.
type Call struct {
	Swap     bool
	Name     string
	Value    []byte // of a Swap
	Revision uint64 // of a Swap
	Keep     time.Duration
}

// Counts holds the number of calls of a Table.
type Counts struct{ Gets, Swaps, Conflicts int }

type value struct {
	bytes    []byte
	revision uint64
	until    time.Time
}

// Get returns the value of a name and its revision.
func (t *Table) Get(ctx context.Context, name string) ([]byte, uint64, error) {
	call := Call{Name: name}
	if err := before(ctx, t.Before, call); err != nil {
		return nil, 0, err
	}
	found := t.get(name)
	return found.bytes, found.revision, before(ctx, t.After, call)
}

func (t *Table) get(name string) value {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Gets++
	return t.live(name)
}

func (t *Table) live(name string) value {
	if found := t.values[name]; time.Now().Before(found.until) {
		return found
	}
	return value{}
}

// Swap writes a value if the name has the given revision.
func (t *Table) Swap(ctx context.Context, name string, bytes []byte, revision uint64, keep time.Duration) (uint64, error) {
	call := Call{true, name, bytes, revision, keep}
	if err := before(ctx, t.Before, call); err != nil {
		return 0, err
	}
	next, err := t.swap(call)
	if err != nil {
		return 0, err
	}
	return next, before(ctx, t.After, call)
}

func (t *Table) swap(call Call) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Swaps++
	if t.live(call.Name).revision != call.Revision {
		t.counts.Conflicts++
		return 0, fmt.Errorf("kvtest: %w", kvstore.ErrOutdated)
	}
	if t.values == nil {
		t.values = map[string]value{}
	}
	t.revision++
	t.values[call.Name] = value{call.Value, t.revision, time.Now().Add(call.Keep)}
	return t.revision, nil
}

func before(ctx context.Context, hook func(context.Context, Call) error, call Call) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("kvtest: %w", err)
	}
	if hook == nil {
		return nil
	}
	return hook(ctx, call)
}

// Now returns the time by this machine's clock.
func (t *Table) Now() rule.Micros { return rule.Micros(time.Now().UnixMicro()) }

// Traits reports what a Table can do.
func (t *Table) Traits() kvstore.Traits { return kvstore.Traits{Name: "table", MaxValue: t.MaxValue} }

// Counts returns how many calls there were so far, and how many swaps failed with a conflict.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// Names returns the names that have a value.
func (t *Table) Names() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.values {
		if t.live(name).revision != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Put replaces the value of a name, as another process would.
func (t *Table) Put(name string, bytes []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[string]value{}
	}
	t.revision++
	t.values[name] = value{bytes, t.revision, time.Now().Add(time.Hour)}
}

// Clear forgets everything, as a restart of an engine without a disk does.
func (t *Table) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.values)
}
