package coalesce

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Panic is the value that a caller panics with if the store panicked in a shared call, which runs on another goroutine.
type Panic struct {
	Value any    // the value that the store panicked with
	Stack []byte // the stack of the panic
}

// Error returns the value and the stack as text.
func (p *Panic) Error() string {
	return fmt.Sprintf("coalesce: the store panicked in a shared call: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// errPanicked omits the value that the store panicked with: it might contain a key.
var errPanicked = errors.New("coalesce: the store panicked in a shared call")

// failCall turns a call that did not return into an error for every caller, and a panic for the caller that waited
// longest. A store that ended the goroutine has no value to panic with.
func (s *Store) failCall(c *sharedCall, value any) {
	for _, e := range c.entries {
		for i := range e.requests {
			e.requests[i].Err = errPanicked
		}
	}
	if value == nil {
		return
	}
	stack := debug.Stack()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range c.entries {
		if !e.left {
			e.panicked = &Panic{Value: value, Stack: stack}
			e.answered = true // it must not leave now: the panic would be lost
			return
		}
	}
}
