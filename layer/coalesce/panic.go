package coalesce

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Panic is what a caller panics with when the store panicked in a shared call, which runs on another goroutine.
type Panic struct {
	Value any    // what the store panicked with
	Stack []byte // where
}

// Error tells value and stack.
func (p *Panic) Error() string {
	return fmt.Sprintf("coalesce: the store panicked in a shared call: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// errBroke does not tell what the store panicked with: nobody knows whether there is a key in it.
var errBroke = errors.New("coalesce: the store panicked in a shared call")

// broke makes of a store that did not return an error for every caller, and a panic for the one who waited longest. A
// store that ended the goroutine has no value to panic with.
func (s *Store) broke(c *sharedCall, value any) {
	for _, e := range c.entries {
		for i := range e.requests {
			e.requests[i].Err = errBroke
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
			e.answered = true // it must not leave any more: the panic would be lost
			return
		}
	}
}
