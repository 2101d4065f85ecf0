package gate_test

import (
	"net/http/httptest"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
)

const classesFile = `
policies:
  api:
    key: "{header:X-Tenant}"
    class: header:X-Class
    classes: {critical: 100%, "batch-*": 60%, default: 90%}
    limits: [10/1h]
  keyed:
    key: header:X-Api-Key
    class: key
    classes: {"team-*": 100%, default: 50%}
    limits: [4/1h]
`

// The class is found in a request, or sent by an application, and is part of an explanation.
func TestClasses(t *testing.T) {
	file, err := config.Parse("test.yaml", []byte(classesFile))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(file, memory(t, newClock()), gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	over := func(class string) policy.Decision {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Tenant", "acme")
		if class != "" {
			r.Header.Set("X-Class", class)
		}
		d, err := g.CheckPolicy(t.Context(), "api", r)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i, step := range []struct {
		class, want string
		allowed     bool
		left        int64
	}{
		{"batch-7", "batch-*", true, 5}, {"", "default", true, 7}, {"batch", "default", true, 6}, {"critical", "critical", true, 6},
		{"batch-7", "batch-*", true, 1}, {"batch-8", "batch-*", true, 0}, {"batch-8", "batch-*", false, 0}, {"critical", "critical", true, 3},
	} {
		if d := over(step.class); d.Class != step.want || d.Allowed != step.allowed || d.Remaining != step.left {
			t.Errorf("request %d, %q: got %+v, want %+v", i, step.class, d, step)
		}
	}
	do := func(op gate.Op, req gate.Request) policy.Decision {
		d, err := g.Do(t.Context(), op, req)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := do(gate.Allow, gate.Request{Policy: "api", Key: "acme", Cost: 1, Class: "batch-9"}); d.Allowed || d.Quota != 6 {
		t.Errorf("an application's batch: got %+v, want a refusal by the 6 that it has", d)
	}
	if d := do(gate.Peek, gate.Request{Policy: "api", Key: "acme", Cost: 3, Class: "critical"}); !d.Allowed {
		t.Errorf("an application's critical request: got %+v, want 3 left", d)
	}
	for key, want := range map[string]int64{"team-a": 4, "ann": 2} {
		if d := do(gate.Peek, gate.Request{Policy: "keyed", Key: key, Cost: 1, Class: "team-a"}); d.Quota != want {
			t.Errorf("%s: got a quota of %d, want %d, by its key", key, d.Quota, want)
		}
	}
	e, err := g.Explain(t.Context(), gate.Request{Policy: "api", Key: "acme", Cost: 1, Class: "batch-1"})
	if err != nil || e.Class != "batch-*" || len(e.Limits) != 1 || e.Limits[0].Limit != "6/1h" || e.Limits[0].Allowed {
		t.Errorf("explained: %+v, %v, want a refusal of the class batch-* by 6/1h", e, err)
	}
	var r slidegate.Reservation
	do(gate.Reserve, gate.Request{Policy: "api", Key: "other", Cost: 5, Class: "batch-1", Reservation: &r})
	d := do(gate.Settle, gate.Request{Policy: "api", Reservation: &r, Used: []slidegate.Used{{Limit: "6/1h", Cost: 2}}})
	if d.Answers[0].Granted != 3 || gate.Label(&d.Limits[0]) != "6/1h" {
		t.Errorf("settled: got %+v, want 3 units of 6/1h back", d)
	}
	twice := httptest.NewRequest("GET", "/", nil)
	twice.Header["X-Class"] = []string{"a", "b"}
	if name := g.AmbiguousHeader(twice); name != "X-Class" {
		t.Errorf("two classes: got the ambiguous header %q", name)
	}
}
