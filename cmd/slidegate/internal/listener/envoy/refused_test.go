package envoy

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
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
