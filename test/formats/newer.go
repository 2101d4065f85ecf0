package formats

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Newer is the number of the newer format that CheckNewer puts into a server.
const Newer = 99

// CheckNewer checks what happens when a store meets what another version of the program has written: everything that this one writes, with the
// number of its format replaced by newer. Every operation must return an error that names both formats, must change nothing, and leaves
// the decision to the failure mode.
func CheckNewer(t *testing.T, server Server, newer func(line string) string) {
	t.Helper()
	for i := range histories {
		h := &histories[i]
		var all, memory []string // with all lines of a newer version, and only those of what is remembered
		remembered := false
		for _, line := range h.write(t, server) {
			all, memory = append(all, newer(line)), append(memory, line)
			if strings.Contains(line, "%settled") {
				memory[len(memory)-1], remembered = newer(line), true
			}
		}
		h.checkRejects(t, server, all, newerOps)
		if remembered {
			h.checkRejects(t, server, memory, newerOps[:onceOps])
		}
	}
}

// newerOps are requests about the second call of a history; the first of them are those that are remembered.
var newerOps = []step{
	{op: rule.Settle, cost: 1, id: "call-2"},
	{op: rule.Take, cost: 1, id: "call-2", once: true},
	{op: rule.Take, cost: 1, id: "call-2"},
	{op: rule.TakeUpTo, cost: 1},
	{op: rule.Peek, cost: 1},
	{op: rule.Charge, cost: 1},
	{op: rule.GiveBack, cost: 1},
	{op: rule.Reset},
	{op: rule.Renew, cost: 1, id: "call-2"},
}

const onceOps = 2

func (h *history) checkRejects(t *testing.T, server Server, lines []string, ops []step) {
	t.Helper()
	server.Clear(t)
	server.Load(t, lines)
	before := server.Dump(t)
	last := h.steps[len(h.steps)-1].after
	s := server.Open(t, func() rule.Micros { return at(last) })
	layered, err := stack.New(s, stack.Options{Timeout: time.Minute}) // a busy server answers late, and is not out
	if err != nil {
		t.Fatal(err)
	}
	if len(ops) > onceOps { // the state itself is newer
		c := h.request(t, &ops[0]).Charges[0]
		_, _, err := s.(store.Inspector).Inspect(t.Context(), c.Limit, h.group, c.Key)
		if err == nil || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), "upgrade this program") {
			t.Errorf("%s, inspected: got %v, want an error that says to upgrade because of format 99", h.name, err)
		}
	}
	for _, op := range ops {
		r := h.request(t, &op)
		err := s.Apply(t.Context(), []store.Request{r})
		if err == nil || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), "upgrade this program") {
			t.Errorf("%s, %s: got %+v, %v, want an error that says to upgrade because of format 99", h.name, op.op, r.Answers[0], err)
		}
		if op.op != rule.Take || op.hold {
			continue
		}
		// The mode open admits while the store is out, not because of one key: that would be a way around a limit.
		for mode, flag := range map[store.Mode]rule.Flags{store.FailOpen: rule.FallbackLocal, store.FailClosed: rule.FallbackClosed, store.FailLocal: rule.FallbackLocal} {
			r := h.request(t, &op)
			err := store.In(layered, mode).Apply(t.Context(), []store.Request{r})
			if a := r.Answers[0]; err != nil || a.Flags&flag == 0 || a.Allowed != (mode != store.FailClosed) {
				t.Errorf("%s, failure mode %s: got %+v, %v, want the mode to decide", h.name, mode, a, err)
			}
		}
	}
	if err := layered.Close(t.Context()); err != nil {
		t.Error(err)
	}
	after := server.Dump(t) // with a key by which the layer has tried whether the store answers
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("%s: what a newer version has written was changed from\n%s\nto\n%s", h.name, strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	}
}
