package envoy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
)

const apiRules = `
domain: api
descriptors:
- {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 2}}
- key: path
  value: "/export/*"
  share_threshold: true
  descriptors:
  - {key: client, rate_limit: {name: exports, unit: hour, requests_per_unit: 1, count_refused: false}}
  - {key: admin, value: root, rate_limit: {unlimited: true}}
- {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: closed, rate_limit: {unit: day, requests_per_unit: 0}}
`

// refusals collects the arguments of OnRefused.
type refusals struct {
	mu   sync.Mutex
	list []string
}

func (l *refusals) add(r gate.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Policy + " " + r.Key + " " + r.Rule
	if r.By != policy.ByLimits {
		text += " by " + r.By.String()
	}
	if r.Shadow {
		text += " in shadow mode"
	}
	l.list = append(l.list, text)
}

func (l *refusals) take() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, l.list = l.list, nil
	return list
}

// TestRefusedDescriptorsAreReported: OnRefused gets the text of each descriptor and the label of its rule, which
// contains nothing that a client sent.
func TestRefusedDescriptorsAreReported(t *testing.T) {
	var refused refusals
	r := newRig(t, Options{OnRefused: refused.add}, apiRules)
	for _, step := range []struct {
		request string
		hits    uint32
		want    []string
	}{
		{"remote_address=192.0.2.1", 2, nil},
		{"remote_address=192.0.2.1", 1, []string{"envoy:api remote_address=192.0.2.1 api.remote_address"}},
		{"path=/export/a,client=x%y path=/export/b,client=x%y", 1, []string{"envoy:api path=/export/b,client=x%25y exports"}},
		{"watched=a", 2, []string{"envoy:api watched=a api.watched in shadow mode"}},
		{"quota=a remote_address=192.0.2.9", 2, []string{"envoy:api quota=a api.quota"}}, // no other rule is in quota mode, so it refuses
		{"closed=a unknown=b", 1, []string{"envoy:api closed=a api.closed"}},
		{"path=/export/a,admin=root", 9, nil},
	} {
		r.send(request("api", step.hits, strings.Fields(step.request)...))
		if got := refused.take(); !slices.Equal(got, step.want) {
			t.Errorf("%d of %s: got %q, want %q", step.hits, step.request, got, step.want)
		}
	}
	r.send(request("elsewhere", 9, "remote_address=192.0.2.1"))
	if got := refused.take(); got != nil {
		t.Errorf("a domain without rules: got %q, want none", got)
	}
}

func (r *rig) explain(key string, cost int64) string {
	r.t.Helper()
	e, err := r.service.Explain(r.t.Context(), gate.Request{Policy: "envoy:api", Key: key, Cost: cost})
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %s/%s allowed=%v refused=%v", e.By, e.Rule, e.Path, e.Allowed, e.Refused)
	for _, l := range e.Limits {
		text += fmt.Sprintf(" %s %d/%d", l.Limit, *l.Remaining, l.Quota)
	}
	for _, l := range e.DescriptorLimits {
		text += fmt.Sprintf(" brought %s %d/%d", l.Limit, *l.Remaining, l.Quota)
	}
	return text + " " + e.Note
}

func TestExplainDescriptors(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	r.send(request("api", 3, "remote_address=192.0.2.1"))
	r.send(request("api", 1, "path=/export/a,client=x"))
	r.send(request("api", 2, "watched=a"))
	own := request("api", 4, "remote_address=192.0.2.7")
	own.Descriptors[0].Limit = limitOf(5, 4) // a day
	r.send(own)
	for _, c := range []struct {
		text string
		cost int64
		want string
	}{
		{"remote_address=192.0.2.1", 1, "limits api.remote_address/api.remote_address allowed=false refused=true 2/1m fixed-window count-refused 0/2 "},
		{"remote_address=192.0.2.2", 1, "limits api.remote_address/api.remote_address allowed=true refused=false 2/1m fixed-window count-refused 2/2 "},
		{"remote_address=192.0.2.2", 3, "allowed=false refused=true"},
		{"path=/export/z,client=x", 1, "limits exports/api.path_/export/*.client allowed=false refused=true"}, // all paths share the count
		{"path=/export/z,client=y", 1, "allowed=true refused=false"},
		{"path=/export/z,admin=root", 1, "unlimited api.path_/export/*.admin_root/api.path_/export/*.admin_root allowed=true"},
		{"watched=a", 1, "allowed=true refused=true"},
		{"closed=a", 1, "allowed=false refused=true 0/"},
		{"remote_address=192.0.2.7", 1, "brought 5/24h fixed-window count-refused 1/5"},
		{"path=/export/z", 1, "unlimited / allowed=true refused=false no rule matches: api.path_/export/* has no rate_limit"},
		{"path=/other", 1, `no rule matches: api has no descriptor for entry 1, "path"`},
		{"path=/export/z,tenant=t", 1, `no rule matches: api.path_/export/* has no descriptor for entry 2, "tenant"`},
		{"a=b=c", 1, "envoy: invalid key: entry 1 of the descriptor has two ="},
	} {
		if got := r.explain(c.text, c.cost); !strings.Contains(got, c.want) {
			t.Errorf("%d of %s: got %s\nwant %s", c.cost, c.text, got, c.want)
		}
	}
	r.want(request("api", 1, "remote_address=192.0.2.2"), "OK: OK/1") // nothing was charged
	_, err := r.service.Explain(t.Context(), gate.Request{Policy: "envoy:apu", Key: "a=b"})
	if !errors.Is(err, gate.ErrPolicy) || !strings.Contains(err.Error(), `did you mean "envoy:api"? (want envoy:api)`) {
		t.Errorf("an unknown domain: got %v", err)
	}
}

func TestPeekAndResetDescriptors(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	peek := func(text string) string {
		t.Helper()
		v, err := r.service.Peek(t.Context(), gate.Request{Policy: "envoy:api", Key: text, Cost: 1})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%v %v %s %d/%d %v", v.Decision.Allowed, v.By, v.Decision.LimitName, v.Decision.Remaining, v.Decision.Quota, v.Decision.RetryAfter)
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	reset := func(text string) error {
		return r.service.Reset(t.Context(), gate.Request{Policy: "envoy:api", Key: text})
	}
	r.send(request("api", 9, "remote_address=192.0.2.1"))
	want(peek("remote_address=192.0.2.1"), "false limits api.remote_address 0/2 1m0s")
	want(peek("remote_address=192.0.2.2"), "true limits api.remote_address 2/2 0s")
	want(peek("closed=x"), "false limits api.closed 0/0 2562047h47m16.854775807s")
	want(peek("unknown=x"), "true unlimited  4294967295/0 0s")
	if err := reset("remote_address=192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	r.want(request("api", 1, "remote_address=192.0.2.1"), "OK: OK/1")
	r.send(request("api", 1, "path=/export/a,client=x"))
	if err := reset("path=/export/b,client=x"); err != nil { // shares the count
		t.Fatal(err)
	}
	r.want(request("api", 1, "path=/export/a,client=x"), "OK: OK/0")
	if err := reset("unknown=x"); !errors.Is(err, gate.ErrKey) || !strings.Contains(err.Error(), "no rule matches") {
		t.Errorf("a descriptor that no rule matches: got %v", err)
	}
	own := request("api", 3, "unknown=x")
	own.Descriptors[0].Limit = limitOf(2, 4)
	r.want(own, "OVER: OVER/0")
	if err := reset("unknown=x"); err != nil {
		t.Fatal(err)
	}
	own.HitsAddend = 1
	r.want(own, "OK: OK/1")
	down := errors.New("down")
	r.store.fail.Store(&down)
	if err := reset("remote_address=192.0.2.1"); !errors.Is(err, down) {
		t.Errorf("with the store down: got %v", err)
	}
}

// What the store keeps of a descriptor, with the changes of rulings about it.
func TestStateOfDescriptors(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	r.send(request("api", 1, "path=/export/a,client=x"))
	log := []rulings.Ruling{{Policy: "envoy:api", Key: "path=/export/a,client=x", Who: "ann"}, {Policy: "envoy:api", Key: "path=/export/a,client=y"}, {Policy: "api", Key: "path=/export/a,client=x"}}
	for _, c := range []struct{ text, want string }{
		{"path=/export/a,client=x", "limits exports 1 used, 0 left, in 1 parts [ann]"},
		{"path=/export/z,client=x", "limits exports 1 used, 0 left, in 1 parts []"}, // all paths share the count
		{"path=/export/a,client=z", "limits exports 0 used, 1 left, in 0 parts []"},
		{"closed=a", "limits api.closed 0 used, 0 left, in 0 parts []"},
		{"path=/export/z,admin=root", "unlimited api.path_/export/*.admin_root []"},
	} {
		k, err := r.service.State(t.Context(), gate.Request{Policy: "envoy:api", Key: c.text, Cost: 1}, log)
		if err != nil {
			t.Fatal(err)
		}
		got, who := fmt.Sprintf("%v %s", k.By, k.Rule), []string{}
		for _, l := range k.Limits {
			got += fmt.Sprintf(" %d used, %d left, in %d %s", l.Used, l.Remaining, len(l.Units), l.Form)
		}
		for _, change := range k.History {
			who = append(who, change.Who)
		}
		if got += fmt.Sprintf(" %v", who); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
	if _, err := r.service.State(t.Context(), gate.Request{Policy: "envoy:apu", Key: "a=b"}, nil); !errors.Is(err, gate.ErrPolicy) {
		t.Errorf("an unknown domain: got %v", err)
	}
}
