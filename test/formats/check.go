package formats

import (
	"os"
	"slices"
	"strings"
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

// Check checks that a store decides by what a release has written, as the histories say, and that it writes the same. The file has a
// section for each history.
func Check(t *testing.T, file string, server Server) {
	t.Helper()
	released := readSections(t, file)
	known := 0
	for i := range histories {
		h := &histories[i]
		lines, found := released[h.name]
		if !found {
			t.Errorf("%s: has no %s; this version writes\n%s", file, h.name, strings.Join(h.write(t, server), "\n"))
			continue
		}
		known++
		h.checkReads(t, server, lines)
		h.checkWrites(t, server, lines)
	}
	if known != len(released) {
		t.Errorf("%s: there is a history for %d of %d sections; keep those that were released", file, known, len(released))
	}
}

// checkReads checks that a store answers by what a server contains.
func (h *history) checkReads(t *testing.T, server Server, lines []string) {
	t.Helper()
	server.Clear(t)
	server.Load(t, lines)
	var now rule.Micros
	s := server.Open(t, func() rule.Micros { return now })
	for _, want := range h.wants {
		r := h.request(t, &want.step)
		now = at(want.after)
		err := s.Apply(t.Context(), []store.Request{r})
		got, expected := r.Answers[0], rule.Answer{
			Allowed: want.allowed, Flags: want.flags, Granted: want.granted, Remaining: want.remaining, RetryAfter: micros(want.retryAfter), ResetAfter: micros(want.resetAfter),
		}
		if want.op != rule.Peek { // it says what was done
			expected.Remaining, expected.RetryAfter, expected.ResetAfter = got.Remaining, got.RetryAfter, got.ResetAfter
		}
		expected.NextAfter, expected.At = got.NextAfter, got.At
		if want.op == rule.Peek {
			h.checkInspect(t, s, &want)
		}
		if err != nil || got != expected {
			t.Errorf("%s, read %v later, %s %d: got %+v, %v, want %+v", h.name, want.after, want.op, want.cost, got, err, expected)
		}
	}
	h.checkDocument(t, s)
}

// checkInspect checks what a store says that it keeps: the rule derives the same from it.
func (h *history) checkInspect(t *testing.T, s store.Store, want *want) {
	t.Helper()
	c := h.request(t, &want.step).Charges[0]
	state, now, err := s.(store.Inspector).Inspect(t.Context(), c.Limit, h.group, c.Key)
	l, answers := c.Limit.Rule(), make([]rule.Answer, 1)
	rule.Decide(rule.Peek, []rule.Item{{Limit: l, State: &state, Cost: c.Cost}}, now, answers)
	if a := answers[0]; err != nil || a.Allowed != want.allowed || a.Remaining != want.remaining || a.RetryAfter != micros(want.retryAfter) || a.ResetAfter != micros(want.resetAfter) {
		t.Errorf("%s, inspected %v later: got %+v, %v, and from it %+v, want %+v", h.name, want.after, l.Usage(&state, now), err, a, want)
	}
}

func (h *history) checkDocument(t *testing.T, s store.Store) {
	t.Helper()
	if h.document == "" {
		return
	}
	documents, ok := store.As[store.Documents](s)
	if !ok {
		t.Fatalf("%s: the store keeps no documents", h.name)
	}
	text, revision, err := documents.LoadDocument(t.Context(), h.name, 0)
	if string(text) != h.document || revision == 0 || err != nil {
		t.Errorf("%s: got the document %q of revision %d, %v, want %q", h.name, text, revision, err, h.document)
	}
}

// checkWrites checks that a server contains the same lines after the same requests.
func (h *history) checkWrites(t *testing.T, server Server, lines []string) {
	t.Helper()
	if got := h.write(t, server); !slices.Equal(got, lines) {
		t.Errorf("%s: this version writes\n%s\nand a release has promised\n%s\nkeep the format, or give the new one another version and its own history",
			h.name, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
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
	if h.document != "" {
		documents, _ := store.As[store.Documents](s)
		if _, err := documents.SwapDocument(t.Context(), h.name, []byte(h.document), 0); err != nil {
			t.Fatal(err)
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

// Sections of a file begin with a line "== name", and its comment. --------------------------------------------------------------------

const mark = "== "

func readSections(t testing.TB, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sections, name := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, mark); ok {
			name = title
			sections[name] = nil
		} else if name != "" && line != "" && line[0] != '#' {
			sections[name] = append(sections[name], line)
		}
	}
	return sections
}
