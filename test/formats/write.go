package formats

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Server is what a store keeps its data in. What it contains is described by lines, in which what is random is replaced by something fixed.
type Server interface {
	Clear(t testing.TB)
	Load(t testing.TB, lines []string) // into an empty one
	Dump(t testing.TB) []string
	Open(t testing.TB, now func() rule.Micros) store.Store
}

// write sends the requests of a history to an empty server, and returns what it contains then.
func (h *history) write(t *testing.T, server Server) []string {
	t.Helper()
	server.Clear(t)
	var now rule.Micros
	s := server.Open(t, func() rule.Micros { return now })
	for _, step := range h.steps {
		r := h.request(t, &step)
		now = at(step.after)
		if err := s.Apply(t.Context(), []store.Request{r}); err != nil || !r.Answers[0].Allowed {
			t.Fatalf("%s, after %v: got %+v, %v, want it admitted", h.name, step.after, r.Answers[0], err)
		}
	}
	return server.Dump(t)
}

// request returns the request of a step.
func (h *history) request(t testing.TB, step *step) store.Request {
	t.Helper()
	limits := h.limits[step.limit : step.limit+1]
	if h.together {
		limits = h.limits
	}
	r := store.Request{Op: step.op, Group: h.group, Hold: step.hold, Once: step.once, Answers: make([]rule.Answer, len(limits))}
	for _, limit := range limits {
		l, err := limit.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		charge := store.Charge{Limit: store.Bind(h.namespace(), h.name, h.name, l), Key: h.key(), Cost: step.cost, Used: step.used}
		if step.op == rule.Settle {
			charge.At = at(step.charged)
		}
		r.Charges = append(r.Charges, charge)
	}
	if step.id != "" {
		r.ID = store.IDOf(step.id)
	}
	return r
}

func at(after time.Duration) rule.Micros { return begin + micros(after) }

func micros(d time.Duration) rule.Micros { return rule.Micros(d.Microseconds()) }
