package restart_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

// The limits of a counter in Deno KV and of a log in a Durable Object, played in real time through a service that is killed in the middle:
// every decision is the rule's at the time that the service says.
func TestKilledService(t *testing.T) {
	const window = rule.Micros(3_000_000)
	for text, limit := range map[string]rule.Limit{
		"5/3s sliding-window overlap=down count-refused": {
			Algorithm: rule.SlidingWindow, Quota: 5, Window: window, Segments: 1, Overlap: rule.OverlapDown, CountRefused: true,
		},
		"5/3s sliding-log": {Algorithm: rule.SlidingLog, Quota: 5, Window: window},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "state")
			l, err := limit.Normalize()
			testkit.NoError(t, err)
			var s rule.State
			refused := 0
			for range 4 {
				i := startWithLimit(t, text, "", "--state", state)
				for range 12 {
					got := i.decide(t)
					want, _ := l.TakeOne(&s, got.At, 1)
					if got.Allowed != want.Allowed || got.Remaining != want.Remaining || got.Retry != want.RetryAfter {
						t.Fatalf("got %+v, want %+v", got, want)
					}
					if !got.Allowed {
						refused++
					}
				}
				testkit.NoError(t, i.Kill())
				<-i.Ended
			}
			if refused < 10 {
				t.Errorf("only %d were refused: the test proves nothing", refused)
			}
		})
	}
}

type decided struct {
	Allowed   bool        `json:"allowed"`
	Remaining int64       `json:"remaining"`
	Retry     rule.Micros `json:"retry_after_us"`
	At        rule.Micros `json:"at_us"`
}

// decide makes a request, which takes some time, as those of a client do.
func (i *cliffInstance) decide(t *testing.T) (d decided) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Post(i.url+"/v1/allow", "application/json", strings.NewReader(`{"key":"tenant"}`))
	testkit.NoError(t, err)
	defer response.Body.Close()
	testkit.NoError(t, json.NewDecoder(response.Body).Decode(&d))
	return d
}
